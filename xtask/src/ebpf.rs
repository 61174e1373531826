//! The kernel object: built from source, stripped, and compared with the committed one.
//!
//! The committed object lets the controller build with plain stable Rust. Its record, beside it,
//! says of which sources and with which tools it was made.

mod build;
mod flags;
mod paths;
mod record;
mod toolchain;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::shell;
pub use build::own_target_dir;
use record::Record;
use toolchain::Toolchain;

const REMEDY: &str = "run `cargo xtask build-ebpf` and commit overload-ctl/bpf";

/// What a check that did not fail has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The committed object is, byte for byte, what its source builds to.
    Identical,
    /// Other tools than the recorded ones built another object of the same sources.
    OtherTools,
}

/// Builds the object and puts it, with its record, where the controller includes it.
pub fn build_and_install() -> Result<()> {
    let (built, record) = build()?;
    install(&built, &record)?;
    println!("build-ebpf: {} {}", committed()?.display(), record.sha256);
    Ok(())
}

/// Builds the object and compares it with the committed one, which is left alone.
pub fn check() -> Result<Checked> {
    let (_, built) = build()?;
    let committed = committed()?;
    let recorded = Record::read(&record_of(&committed))
        .with_context(|| format!("the committed object has no record: {REMEDY}"))?;
    let sha256 = shell::sha256(&committed)?;
    let checked = compare(&recorded, &sha256, &built)?;
    match checked {
        Checked::Identical => {
            println!("build-ebpf: the committed object is what its source builds to");
        }
        Checked::OtherTools => println!(
            "build-ebpf: not comparable byte for byte: committed by {}, here {}",
            recorded.tools, built.tools
        ),
    }
    Ok(checked)
}

/// Puts the object of the last [`check`] in the place of the committed one, so that tests judge
/// what these tools build.
pub fn install_checked() -> Result<()> {
    let built = build::stripped_object()?;
    install(&built, &Record::read(&record_of(&built))?)
}

/// Builds the programs of the benchmark, which are never committed, and gives their object.
pub fn build_bench() -> Result<PathBuf> {
    build::build_bench(&Toolchain::ensure()?)
}

/// Builds the object of a copy of this workspace, with a target directory that began as a copy of
/// [`own_target_dir`], and gives it. Says nothing unless it fails.
pub fn build_copy(workspace: &Path, target_dir: &Path) -> Result<PathBuf> {
    build::build_copy(&Toolchain::ensure()?, workspace, target_dir)
}

/// Lints the kernel program; every warning is an error.
pub fn clippy() -> Result<()> {
    build::clippy(&Toolchain::ensure()?)
}

fn build() -> Result<(PathBuf, Record)> {
    let toolchain = Toolchain::ensure()?;
    println!("build-ebpf: {}", toolchain.tools());
    let (object, record) = build::build(&toolchain)?;
    record.write(&record_of(&object))?;
    Ok((object, record))
}

fn install(object: &Path, record: &Record) -> Result<()> {
    let committed = committed()?;
    if let Some(dir) = committed.parent() {
        fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    }
    fs::copy(object, &committed).with_context(|| format!("write {}", committed.display()))?;
    record.write(&record_of(&committed))
}

/// The judgement on the committed object: `recorded` is its record, `sha256` its true digest,
/// `built` the record of the object just built.
fn compare(recorded: &Record, sha256: &str, built: &Record) -> Result<Checked> {
    if recorded.sha256 != sha256 {
        bail!("the committed object is not the one its record describes: {REMEDY}");
    }
    if recorded.sources_sha256 != built.sources_sha256 {
        bail!("the committed object was built from other sources than these: {REMEDY}");
    }
    if recorded.sha256 == built.sha256 {
        return Ok(Checked::Identical);
    }
    if recorded.tools == built.tools {
        bail!("the committed object differs from what the same tools build here: {REMEDY}");
    }
    Ok(Checked::OtherTools)
}

fn committed() -> Result<PathBuf> {
    Ok(shell::workspace()?.join("overload-ctl/bpf/overload.o"))
}

fn record_of(object: &Path) -> PathBuf {
    object.with_extension("o.toml")
}

#[cfg(test)]
mod tests {
    use super::{
        Checked, compare,
        record::{Record, Tools},
    };

    fn record(sha256: &str, sources: &str, rustc: &str) -> Record {
        Record {
            sha256: sha256.into(),
            sources_sha256: sources.into(),
            target_cpu: "v3".into(),
            tools: Tools {
                rustc: rustc.into(),
                llvm: "22.1.8".into(),
                bpf_linker: "0.13.0".into(),
            },
        }
    }

    #[test]
    fn same_bytes_are_identical_whatever_built_them() {
        let committed = record("aa", "s", "1.96.0");
        assert_eq!(
            compare(&committed, "aa", &committed).ok(),
            Some(Checked::Identical)
        );
        let other = record("aa", "s", "1.97.0");
        assert_eq!(
            compare(&committed, "aa", &other).ok(),
            Some(Checked::Identical)
        );
    }

    #[test]
    fn other_bytes_need_other_tools() {
        let committed = record("aa", "s", "1.96.0");
        assert!(compare(&committed, "aa", &record("bb", "s", "1.96.0")).is_err());
        let outcome = compare(&committed, "aa", &record("bb", "s", "1.97.0"));
        assert_eq!(outcome.ok(), Some(Checked::OtherTools));
    }

    #[test]
    fn other_tools_excuse_neither_other_sources_nor_a_replaced_object() {
        let committed = record("aa", "s", "1.96.0");
        assert!(compare(&committed, "aa", &record("bb", "t", "1.97.0")).is_err());
        assert!(compare(&committed, "cc", &record("bb", "s", "1.97.0")).is_err());
    }
}
