//! `check`: is the file a configuration?

use std::{
    io::{self, Write},
    iter,
    path::Path,
};

use super::Failure;
use crate::config::{self, Config, METHODS, number_text};

pub(super) fn check(file: &Path) -> Result<(), Failure> {
    let (config, warnings) = config::load(file)?;
    let mut out = io::stdout().lock();
    for warning in warnings {
        writeln!(out, "warning: {warning}")?;
    }
    let count = config.destinations.len();
    let plural = if count == 1 { "" } else { "s" };
    let names: Vec<&str> = config.interfaces.iter().map(|i| i.name.as_str()).collect();
    writeln!(
        out,
        "{}: valid, {count} destination{plural} on {} in {} mode",
        file.display(),
        names.join(", "),
        config.mode.name()
    )?;
    for line in summary(&config) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// What holds beside the destinations, defaults included.
fn summary(config: &Config) -> [String; 4] {
    let Config {
        sources,
        replies,
        emergency,
        ..
    } = config;
    let numbers = emergency.numbers.iter().map(|n| number_text(*n));
    let calls: Vec<String> = iter::once("urn:service:sos".to_owned())
        .chain(numbers)
        .collect();
    let kept = if emergency.share_percent > 0.0 && emergency.source_rate_per_second > 0.0 {
        format!(
            "{} % of each rate, at least 1/s; each source prefix {}/s, {} at once",
            emergency.share_percent, emergency.source_rate_per_second, emergency.source_burst
        )
    } else {
        "nothing reserved".to_owned()
    };
    let unproven = if replies.rate_per_second > 0.0 {
        format!(
            "{}/s, {} at once to each source prefix",
            replies.rate_per_second, replies.burst
        )
    } else {
        "none to sources".to_owned()
    };
    let methods: Vec<String> = METHODS
        .iter()
        .zip(config.methods)
        .map(|(method, treatment)| format!("{} {}", method.name(), treatment.name()))
        .collect();
    [
        format!(
            "sources    {} trusted, {} denied",
            sources.trusted.len(),
            sources.denied.len()
        ),
        format!("replies    {unproven} neither trusted nor proven"),
        format!("emergency  {}: {kept}", calls.join(" ")),
        format!("methods    {}", methods.join(", ")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rest: &str) -> [String; 4] {
        let sample = include_str!("../../../config/overload.toml");
        let head = sample.split("[metrics]").next().unwrap_or_default();
        let text = format!("{head}\n{rest}");
        summary(
            &config::parse(Path::new("c.toml"), text.as_bytes())
                .expect("valid")
                .0,
        )
    }

    #[test]
    fn effective_values_are_shown_with_their_units() {
        assert_eq!(
            lines(""),
            [
                "sources    0 trusted, 0 denied",
                "replies    200/s, 400 at once to each source prefix neither trusted nor proven",
                "emergency  urn:service:sos 112 911: 5 % of each rate, at least 1/s; each source prefix 1/s, 5 at once",
                "methods    INVITE normal, MESSAGE normal, REGISTER normal, SUBSCRIBE normal, OPTIONS normal, PUBLISH normal",
            ]
        );
        assert_eq!(
            lines(
                "[sources]\ntrusted = [\"192.0.2.0/24\"]\n[replies]\nrate_per_second = 0\n\
                 [emergency]\nnumbers = [\"+1-10\"]\nshare_percent = 0\n[methods]\nOPTIONS = \"pass\"\n"
            ),
            [
                "sources    1 trusted, 0 denied",
                "replies    none to sources neither trusted nor proven",
                "emergency  urn:service:sos +110: nothing reserved",
                "methods    INVITE normal, MESSAGE normal, REGISTER normal, SUBSCRIBE normal, OPTIONS pass, PUBLISH normal",
            ]
        );
    }
}
