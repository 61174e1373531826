//! Telephone numbers of the configuration.

use std::collections::HashMap;

use overload_common::sip::{NUMBER_DIGITS, Number};
use thiserror::Error;
use toml::Spanned;

use super::{
    Match, Position,
    emergency::MAX_NUMBERS,
    fault::{Problem, Report, WarningKind},
};

/// Why a text is no number, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NumberFault {
    /// Nothing to compare.
    #[error("number {0:?} has no digit; write one such as \"+1555\"")]
    NoDigit(String),
    /// More digits than are compared.
    #[error("number {0:?} has more than {NUMBER_DIGITS} digits, so nobody can call it; shorten it")]
    TooLong(String),
    /// Something that is neither digit nor separator.
    #[error(
        "number {number:?} contains {found:?}; write digits, after at most one '+', with no separators but '-', '.', '(' and ')'"
    )]
    Character {
        /// The text.
        number: String,
        /// The first one that does not belong there.
        found: char,
    },
    /// Named twice in a list; `+` and separators do not tell emergency numbers apart.
    #[error("number {number:?} is that of line {line} again; remove one")]
    Duplicate {
        /// The second one.
        number: String,
        /// Where the first one stands.
        line: usize,
    },
    /// More emergency numbers than are compared.
    #[error("{0} emergency numbers are more than the {MAX_NUMBERS} of one instance; remove some")]
    TooMany(usize),
}

/// The number in the form that the kernel compares.
pub(super) fn read(text: &str) -> Result<Number, NumberFault> {
    Number::read(text).ok_or_else(|| {
        let number = text.to_owned();
        let after_plus = text.strip_prefix('+').unwrap_or(text);
        let mut characters = after_plus.chars();
        let foreign = characters.find(|c| !matches!(c, '0'..='9' | '-' | '.' | '(' | ')'));
        if let Some(found) = foreign {
            NumberFault::Character { number, found }
        } else if text.contains(|c: char| c.is_ascii_digit()) {
            NumberFault::TooLong(number)
        } else {
            NumberFault::NoDigit(number)
        }
    })
}

/// The number as it is written without separators.
pub fn number_text(number: Number) -> String {
    let digits = format!("{:x}", number.digits);
    // The first one is the mark above the digits.
    format!("{}{}", if number.global { "+" } else { "" }, &digits[1..])
}

/// Prefixes of the destinations so far: whose they are, and where they stand.
#[derive(Default)]
pub(super) struct Prefixes(HashMap<Number, (String, Position)>);

impl Prefixes {
    /// What the next destination matches.
    pub(super) fn add(
        &mut self,
        written: &Spanned<String>,
        name: String,
        report: &mut Report,
    ) -> Option<Match> {
        let number = match read(written.get_ref()) {
            Ok(number) => number,
            Err(fault) => {
                report.fault(&written.span(), fault.into());
                return None;
            }
        };
        if let Some((other, first)) = self.0.get(&number) {
            let problem = Problem::DuplicatePrefix {
                prefix: written.get_ref().clone(),
                other: other.clone(),
                line: first.line,
            };
            report.fault(&written.span(), problem);
            return None;
        }
        // What begins with these digits begins with fewer of them too, and the earlier destination decides.
        let mut shorter = (1..number.count()).map(|less| Number {
            digits: number.digits >> (4 * less),
            ..number
        });
        let before = shorter.find_map(|shorter| self.0.get(&shorter));
        if let Some((other, first)) = before {
            let kind = WarningKind::Shadowed {
                name: name.clone(),
                other: other.clone(),
                line: first.line,
            };
            report.warning(&written.span(), kind);
        }
        let position = report.position(&written.span());
        self.0.insert(number, (name, position));
        Some(Match::NumberPrefix(number))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            Match,
            tests::{accepted, messages, with_interface},
        },
        *,
    };

    fn destination(name: &str, prefix: &str) -> String {
        format!(
            "[[destination]]\nname = \"{name}\"\nnumber_prefix = \"{prefix}\"\naccept_percent = 50\n"
        )
    }

    #[test]
    fn c07_separators_are_no_part_of_a_prefix() {
        let text = destination("a", "+1-555.(1)") + &destination("b", "1555");
        let (config, _) = accepted(&with_interface(&text));
        let matches: Vec<&Match> = config.destinations.iter().map(|d| &d.matches).collect();
        let expected = ["+15551", "1555"].map(|text| Number::read(text).expect("number"));
        assert_eq!(
            matches,
            [
                &Match::NumberPrefix(expected[0]),
                &Match::NumberPrefix(expected[1])
            ]
        );
    }

    #[test]
    fn what_is_no_prefix_is_told() {
        for (prefix, message) in [
            ("", "number \"\" has no digit; write one such as \"+1555\""),
            (
                "+(-)",
                "number \"+(-)\" has no digit; write one such as \"+1555\"",
            ),
            (
                "+1234567890123456",
                "number \"+1234567890123456\" has more than 15 digits, so nobody can call it; shorten it",
            ),
            (
                "+1 555",
                "number \"+1 555\" contains ' '; write digits, after at most one '+', with no separators but '-', '.', '(' and ')'",
            ),
            (
                "++1",
                "number \"++1\" contains '+'; write digits, after at most one '+', with no separators but '-', '.', '(' and ')'",
            ),
            (
                "tel:+1555",
                "number \"tel:+1555\" contains 't'; write digits, after at most one '+', with no separators but '-', '.', '(' and ')'",
            ),
        ] {
            let text = with_interface(&destination("a", prefix));
            assert_eq!(messages(&text), [format!("c.toml:5:17: {message}")]);
        }
    }

    #[test]
    fn a_prefix_belongs_to_one_destination() {
        let text = destination("a", "+1555") + &destination("b", "+1-555");
        assert_eq!(
            messages(&with_interface(&text)),
            [
                "c.toml:9:17: number_prefix \"+1-555\" is that of destination \"a\" in line 5; remove one"
            ]
        );
    }

    #[test]
    fn a_destination_matches_in_one_way() {
        for (second, place) in [("host = \"gw1\"", "5:17"), ("default = true", "6:11")] {
            let text = destination("a", "+1555").replace("accept", &format!("{second}\naccept"));
            assert_eq!(
                messages(&with_interface(&text)),
                [format!(
                    "c.toml:{place}: destination \"a\" has more than one of host, number_prefix and default; keep one"
                )]
            );
        }
    }

    #[test]
    fn a_longer_prefix_behind_a_shorter_one_is_warned_of() {
        let default = "[[destination]]\nname = \"rest\"\ndefault = true\naccept_percent = 50\n";
        let long_last = destination("short", "+15") + &destination("long", "+1555") + default;
        assert_eq!(
            accepted(&with_interface(&long_last)).1,
            [
                "c.toml:9:17: destination \"long\" matches nothing: all its numbers belong to \"short\" in line 5, which stands before it; move it up"
            ]
        );
        for others in [["+1555", "+15"], ["15", "+1555"], ["+16", "+1555"]] {
            let [first, second] = others;
            let text = destination("a", first) + &destination("b", second) + default;
            assert_eq!(accepted(&with_interface(&text)).1, [""; 0], "{others:?}");
        }
    }
}
