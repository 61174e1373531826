//! docs/reasons.md, written from the enums that the filter counts by.

use std::{
    fmt::{self, Write},
    fs,
    path::PathBuf,
};

use anyhow::{Context, Result};
use overload_common::abi::{Event, Reason, Verdict};

use crate::shell;

const REASONS: &str = "docs/reasons.md";

const HEAD: &str = "\
# Reasons and events

Written by `cargo xtask docs` from `overload-common/src/abi/reason.rs`; change it there.

Each packet is counted once, under one reason, and each reason belongs to one verdict. `overload-ctl status` shows the reasons that
occurred; `overload-ctl status --json` and the metric `overload_packets_total` have all of them. In shadow mode a verdict
that was not carried out is counted apart, under `shadow`.
";

const EVENTS: &str = "\
## Events

What happens beside a verdict, counted in `overload_events_total`.

| event | meaning |
|---|---|
";

/// Writes the page.
pub fn write() -> Result<()> {
    let path = path()?;
    fs::write(&path, page()?).with_context(|| format!("write {}", path.display()))
}

fn path() -> Result<PathBuf> {
    Ok(shell::workspace()?.join(REASONS))
}

fn page() -> Result<String, fmt::Error> {
    let mut page = HEAD.to_owned();
    for (verdict, meaning) in VERDICTS {
        writeln!(page, "\n## {}: {meaning}\n", verdict.name())?;
        page.push_str("| reason | meaning |\n|---|---|\n");
        for reason in Reason::ALL.iter().filter(|r| r.verdict() == verdict) {
            row(&mut page, reason.name(), reason.help())?;
        }
    }
    page.push('\n');
    page.push_str(EVENTS);
    for event in Event::ALL {
        row(&mut page, event.name(), event.help())?;
    }
    Ok(page)
}

const VERDICTS: [(Verdict, &str); 5] = [
    (Verdict::Pass, "handed to the host without being judged"),
    (Verdict::Admit, "judged, and handed to the host"),
    (Verdict::Refuse, "answered with 503"),
    (
        Verdict::Absorb,
        "taken off the wire, because no answer is due",
    ),
    (Verdict::Drop, "refused without an answer"),
];

fn row(page: &mut String, name: &str, meaning: &str) -> fmt::Result {
    writeln!(page, "| `{name}` | {} |", meaning.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use overload_common::abi::{Event, Reason};
    use overload_ctl::datapath::object::MAPS;

    use super::{REASONS, page, path};
    use crate::shell;

    #[test]
    fn page_of_reasons_is_as_the_enums_are() {
        let written = fs::read_to_string(path().expect("workspace")).expect("page");
        assert_eq!(
            written,
            page().expect("text"),
            "{REASONS} is out of date: run `cargo xtask docs`"
        );
    }

    #[test]
    fn each_reason_and_event_has_one_row() {
        let page = page().expect("text");
        let names = Reason::ALL.iter().map(|reason| reason.name());
        for name in names.chain(Event::ALL.iter().map(|event| event.name())) {
            let row = format!("\n| `{name}` | ");
            assert_eq!(page.matches(&row).count(), 1, "{name}");
        }
    }

    #[test]
    fn page_of_maps_has_each_map_once() {
        let file = shell::workspace().expect("workspace").join("docs/maps.md");
        let page = fs::read_to_string(file).expect("page");
        let mut rows: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
            .map(|(name, _)| name)
            .collect();
        // The one map that is the program's alone, and not pinned.
        let mut maps = MAPS.to_vec();
        maps.push("SCRATCH");
        rows.sort_unstable();
        maps.sort_unstable();
        assert_eq!(rows, maps);
    }
}
