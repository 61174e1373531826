//! The record beside an object: what it is, of which sources, by which tools.

use std::{fmt, fs, path::Path};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

const HEADER: &str = "# Written by `cargo xtask build-ebpf`.\n";

/// Describes one object.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Digest of the stripped object.
    pub sha256: String,
    /// Digest over the workspace's files that were compiled into it.
    pub sources_sha256: String,
    /// Instruction set it was built for.
    pub target_cpu: String,
    /// What built it. Equal tools build equal bytes.
    pub tools: Tools,
}

/// Versions that the bytes of an object depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tools {
    pub rustc: String,
    pub llvm: String,
    pub bpf_linker: String,
}

impl Record {
    /// Reads a record.
    pub fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is no record", file.display()))
    }

    /// Writes a record.
    pub fn write(&self, file: &Path) -> Result<()> {
        fs::write(file, self.to_text()?).with_context(|| format!("write {}", file.display()))
    }

    fn to_text(&self) -> Result<String> {
        Ok(format!(
            "{HEADER}{}",
            toml::to_string(self).context("record as TOML")?
        ))
    }
}

impl fmt::Display for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "rustc {}, LLVM {}, bpf-linker {}",
            self.rustc, self.llvm, self.bpf_linker
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Record, Tools};

    #[test]
    fn record_survives_its_file() {
        let record = Record {
            sha256: "0a".into(),
            sources_sha256: "0b".into(),
            target_cpu: "v3".into(),
            tools: Tools {
                rustc: "1.96.0 (ac68faa20 2026-05-25)".into(),
                llvm: "22.1.8".into(),
                bpf_linker: "0.13.0".into(),
            },
        };
        let text = record.to_text().expect("strings are TOML");
        assert!(text.starts_with('#'), "{text}");
        assert_eq!(toml::from_str::<Record>(&text).ok(), Some(record));
    }
}
