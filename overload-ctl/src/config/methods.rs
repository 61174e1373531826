//! How each method is judged.

use overload_common::sip::Method;
use toml::Spanned;

use super::{
    document::MethodsTable,
    fault::{Problem, Report},
};

/// The methods that are judged, in the order of their numbers.
pub const METHODS: [Method; 6] = [
    Method::Invite,
    Method::Message,
    Method::Register,
    Method::Subscribe,
    Method::Options,
    Method::Publish,
];

/// How requests of a method are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// With the whole burst.
    Normal,
    /// With half the burst: the first to be refused.
    Low,
    /// With twice the burst: the last to be refused.
    Priority,
    /// Not at all.
    Pass,
}

impl Treatment {
    /// Name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Low => "low",
            Self::Priority => "priority",
            Self::Pass => "pass",
        }
    }
}

/// `None` after a fault, which is then in the report.
pub(super) fn check(
    table: &MethodsTable,
    report: &mut Report,
) -> Option<[Treatment; METHODS.len()]> {
    let MethodsTable {
        invite,
        message,
        register,
        subscribe,
        options,
        publish,
    } = table;
    let read = [invite, message, register, subscribe, options, publish]
        .map(|written| treatment(written.as_ref(), report));
    let mut treatments = [Treatment::Normal; METHODS.len()];
    for (treatment, read) in treatments.iter_mut().zip(read) {
        *treatment = read?;
    }
    Some(treatments)
}

fn treatment(written: Option<&Spanned<String>>, report: &mut Report) -> Option<Treatment> {
    let Some(word) = written else {
        return Some(Treatment::Normal);
    };
    let all = [
        Treatment::Normal,
        Treatment::Low,
        Treatment::Priority,
        Treatment::Pass,
    ];
    let found = all.into_iter().find(|t| t.name() == word.get_ref());
    if found.is_none() {
        let problem = Problem::UnknownWord {
            what: "treatment of a method",
            found: word.get_ref().clone(),
            valid: "\"normal\", \"low\", \"priority\" and \"pass\"",
        };
        report.fault(&word.span(), problem);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{accepted, messages, with_interface},
        *,
    };

    #[test]
    fn each_method_has_its_treatment() {
        let (config, _) = accepted(&with_interface(
            "[methods]\nOPTIONS = \"pass\"\nSUBSCRIBE = \"low\"\nMESSAGE = \"priority\"\nINVITE = \"normal\"\n",
        ));
        let expected = [
            Treatment::Normal,
            Treatment::Priority,
            Treatment::Normal,
            Treatment::Low,
            Treatment::Pass,
            Treatment::Normal,
        ];
        assert_eq!(config.methods, expected);
        for (number, method) in (0..).zip(METHODS) {
            assert_eq!(method as u32, number);
        }
    }

    #[test]
    fn other_methods_and_words_are_told() {
        for (line, message) in [
            (
                "OPTIONS = \"Low\"",
                "c.toml:4:11: unknown treatment of a method \"Low\"; valid are \"normal\", \"low\", \"priority\" and \"pass\"",
            ),
            (
                "options = \"low\"",
                "c.toml:4:1: unknown key `options`; did you mean `OPTIONS`?",
            ),
            (
                "BYE = \"low\"",
                "c.toml:4:1: unknown key `BYE`; the keys known here are `INVITE`, `MESSAGE`, `REGISTER`, `SUBSCRIBE`, `OPTIONS`, `PUBLISH`",
            ),
            (
                "INVITE = 5",
                "c.toml:4:10: the number 5 is of the wrong type; write a text in double quotes",
            ),
        ] {
            let text = with_interface(&format!("[methods]\n{line}\n"));
            assert_eq!(messages(&text), [message]);
        }
    }
}
