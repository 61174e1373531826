//! What is kept for emergency calls.

use std::collections::HashMap;

use overload_common::sip::Number;
use toml::Spanned;

use super::{
    MAX_RATE,
    document::EmergencyTable,
    fault::Report,
    number::{self, NumberFault},
    replies::{burst, number},
};

/// Emergency numbers of one instance.
pub const MAX_NUMBERS: usize = 64;
/// Numbers without configuration.
const NUMBERS: [&str; 2] = ["112", "911"];

/// What emergency calls have for themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct Emergency {
    /// Called numbers that are emergencies, beside `urn:service:sos`; `+` makes no difference.
    pub numbers: Vec<Number>,
    /// Part of each rate that is kept for them, percent; at least 1/s, and 0 keeps nothing.
    pub share_percent: f64,
    /// How much of that one source prefix (/24, /56) can use, requests per second.
    pub source_rate_per_second: f64,
    /// The same at once.
    pub source_burst: f64,
}

/// `None` after a fault, which is then in the report.
pub(super) fn check(table: &EmergencyTable, report: &mut Report) -> Option<Emergency> {
    let numbers = match &table.numbers {
        Some(list) => numbers(list, report),
        None => Some(NUMBERS.iter().filter_map(|n| Number::read(n)).collect()),
    };
    let share = table.share_percent.as_ref();
    let share = number(share, "share_percent", 5.0, 100.0, report);
    let rate = table.source_rate_per_second.as_ref();
    let rate = number(rate, "source_rate_per_second", 1.0, MAX_RATE, report);
    let burst = burst(table.source_burst.as_ref(), "source_burst", 5.0, report);
    Some(Emergency {
        numbers: numbers?,
        share_percent: share?,
        source_rate_per_second: rate?,
        source_burst: burst?,
    })
}

fn numbers(list: &Spanned<Vec<Spanned<String>>>, report: &mut Report) -> Option<Vec<Number>> {
    let written = list.get_ref();
    if written.len() > MAX_NUMBERS {
        report.fault(&list.span(), NumberFault::TooMany(written.len()).into());
        return None;
    }
    let mut lines: HashMap<u64, usize> = HashMap::new();
    let mut numbers = Some(Vec::new());
    for item in written {
        let read =
            number::read(item.get_ref()).and_then(|number| match lines.get(&number.digits) {
                None => Ok(number),
                Some(line) => Err(NumberFault::Duplicate {
                    number: item.get_ref().clone(),
                    line: *line,
                }),
            });
        match read {
            Ok(number) => {
                let line = report.position(&item.span()).line;
                lines.insert(number.digits, line);
                if let Some(numbers) = &mut numbers {
                    numbers.push(number);
                }
            }
            Err(fault) => {
                report.fault(&item.span(), fault.into());
                numbers = None;
            }
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{accepted, messages, with_interface},
        *,
    };

    #[test]
    fn what_is_kept_is_read() {
        let (config, _) = accepted(&with_interface(
            "[emergency]\nnumbers = [\"+1-1-0\", \"999\"]\nshare_percent = 0\n\
             source_rate_per_second = 2.5\nsource_burst = 7\n",
        ));
        let expected = Emergency {
            numbers: ["+110", "999"].map(|n| Number::read(n).expect(n)).to_vec(),
            share_percent: 0.0,
            source_rate_per_second: 2.5,
            source_burst: 7.0,
        };
        assert_eq!(config.emergency, expected);
        let (config, _) = accepted(&with_interface("[emergency]\nnumbers = []\n"));
        assert_eq!(config.emergency.numbers, []);
    }

    #[test]
    fn what_cannot_be_kept_is_told() {
        for (line, message) in [
            (
                "numbers = [\"112\", \"sos\"]",
                "c.toml:4:19: number \"sos\" contains 's'; write digits, after at most one '+', with no separators but '-', '.', '(' and ')'",
            ),
            (
                "numbers = [\"112\", \"+1-12\"]",
                "c.toml:4:19: number \"+1-12\" is that of line 4 again; remove one",
            ),
            (
                "numbers = [112]",
                "c.toml:4:12: the number 112 is of the wrong type; write a text in double quotes",
            ),
            (
                "share_percent = 100.5",
                "c.toml:4:17: share_percent = 100.5 is out of range; write a number from 0 to 100",
            ),
            (
                "source_rate_per_second = -1",
                "c.toml:4:26: source_rate_per_second = -1 is out of range; write a number from 0 to 1000000",
            ),
            (
                "source_burst = 0",
                "c.toml:4:16: source_burst = 0 is no burst; write a whole number from 1 to 1000000",
            ),
            (
                "rate = 5",
                "c.toml:4:1: unknown key `rate`; the keys known here are `numbers`, `share_percent`, `source_rate_per_second`, `source_burst`",
            ),
        ] {
            let text = with_interface(&format!("[emergency]\n{line}\n"));
            assert_eq!(messages(&text), [message]);
        }
        let many: Vec<String> = (100..165).map(|n| format!("\"{n}\"")).collect();
        let text = with_interface(&format!("[emergency]\nnumbers = [{}]\n", many.join(", ")));
        assert_eq!(
            messages(&text),
            ["c.toml:4:11: 65 emergency numbers are more than the 64 of one instance; remove some"]
        );
    }
}
