//! One build: compile, strip, look at the result.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::{
    flags::{self, Machine, TARGET_CPU},
    paths,
    record::Record,
    toolchain::Toolchain,
};
use crate::shell;

const TARGET: &str = "bpfel-unknown-none";

/// Where [`build`] leaves the stripped object.
pub fn stripped_object() -> Result<PathBuf> {
    Ok(own_target_dir()?.join("overload.o"))
}

/// Builds the object and describes it.
pub fn build(toolchain: &Toolchain) -> Result<(PathBuf, Record)> {
    let machine = paths::machine(&toolchain.library_sources())?;
    let linked = link(toolchain, &machine, "overload")?;
    let object = stripped_object()?;
    strip(toolchain, &linked, &object)?;
    let sections = shell::read(
        toolchain
            .llvm("llvm-readelf")
            .args(["--sections", "--wide"])
            .arg(&object),
    )?;
    for wanted in [".BTF", ".BTF.ext"] {
        if !has_section(&sections, wanted) {
            bail!(
                "{} has no section {wanted}: the kernel could not load it",
                object.display()
            );
        }
    }
    let bytes = fs::read(&object).with_context(|| format!("read {}", object.display()))?;
    paths::assert_absent(&bytes, &machine)?;
    let record = Record {
        sha256: shell::sha256(&object)?,
        sources_sha256: sources_sha256(&linked.with_extension("d"), &machine.workspace)?,
        target_cpu: TARGET_CPU.to_owned(),
        tools: toolchain.tools().clone(),
    };
    Ok((object, record))
}

/// Builds the programs of the benchmark and gives their stripped object.
pub fn build_bench(toolchain: &Toolchain) -> Result<PathBuf> {
    let machine = paths::machine(&toolchain.library_sources())?;
    let linked = link(toolchain, &machine, "overload-bench")?;
    let object = own_target_dir()?.join("overload-bench.o");
    strip(toolchain, &linked, &object)?;
    Ok(object)
}

/// Builds the object of a copy of the workspace and gives it, stripped. Cargo does not tell the copy from the
/// original: they must not share a target directory. By equal flags, it takes everything from one that was copied
/// too but the crates of this workspace.
pub fn build_copy(toolchain: &Toolchain, workspace: &Path, target_dir: &Path) -> Result<PathBuf> {
    let machine = paths::machine(&toolchain.library_sources())?;
    let mut cargo = toolchain.cargo("build")?;
    let name = "overload";
    shell::read(
        with_arguments(&mut cargo, &machine, target_dir)
            .args(["--bin", name])
            .current_dir(workspace),
    )?;
    let object = target_dir.join("overload.o");
    strip(toolchain, &linked(target_dir, name), &object)?;
    Ok(object)
}

fn link(toolchain: &Toolchain, machine: &Machine, name: &str) -> Result<PathBuf> {
    let mut cargo = toolchain.cargo("build")?;
    let target_dir = own_target_dir()?;
    shell::run(with_arguments(&mut cargo, machine, &target_dir).args(["--bin", name]))?;
    Ok(linked(&target_dir, name))
}

/// Where cargo leaves what was built last.
fn linked(target_dir: &Path, name: &str) -> PathBuf {
    target_dir.join(TARGET).join("release").join(name)
}

/// Debug information is four fifths of the file; the kernel reads BTF only.
fn strip(toolchain: &Toolchain, linked: &Path, object: &Path) -> Result<()> {
    shell::run(
        toolchain
            .llvm("llvm-objcopy")
            .arg("--strip-debug")
            .arg(linked)
            .arg(object),
    )
}

/// Lints the kernel program for the target it runs on.
pub fn clippy(toolchain: &Toolchain) -> Result<()> {
    let machine = paths::machine(&toolchain.library_sources())?;
    let mut clippy = toolchain.cargo("clippy")?;
    shell::run(
        with_arguments(&mut clippy, &machine, &own_target_dir()?).args(["--", "-D", "warnings"]),
    )
}

fn with_arguments<'a>(
    cargo: &'a mut Command,
    machine: &Machine,
    target_dir: &Path,
) -> &'a mut Command {
    cargo
        .args(["--locked", "--release", "--package", "overload-ebpf"])
        .args(["--target", TARGET, "-Z", "build-std=core", "--target-dir"])
        .arg(target_dir)
        .env("CARGO_ENCODED_RUSTFLAGS", flags::encoded(machine))
}

/// Apart from the host's, so that the two compilers do not undo each other's work.
pub fn own_target_dir() -> Result<PathBuf> {
    Ok(shell::target_dir()?.join("bpf"))
}

fn has_section(listing: &str, name: &str) -> bool {
    listing
        .lines()
        .any(|line| line.split_whitespace().any(|word| word == name))
}

/// One digest over names and contents of the workspace's files that the compiler read.
fn sources_sha256(dep_info: &Path, workspace: &Path) -> Result<String> {
    let text =
        fs::read_to_string(dep_info).with_context(|| format!("read {}", dep_info.display()))?;
    let mut sources: Vec<PathBuf> = parse_dep_info(&text)
        .iter()
        .filter_map(|file| Some(Path::new(file).strip_prefix(workspace).ok()?.to_owned()))
        .collect();
    sources.sort();
    if sources.is_empty() {
        bail!("{} names no source of this workspace", dep_info.display());
    }
    let mut listing = String::new();
    for source in &sources {
        writeln!(
            listing,
            "{} {}",
            shell::sha256(&workspace.join(source))?,
            source.display()
        )?;
    }
    let file = own_target_dir()?.join("sources.sha256");
    fs::write(&file, listing).with_context(|| format!("write {}", file.display()))?;
    shell::sha256(&file)
}

/// Prerequisites in cargo's dep-info: `target: file file`, spaces in names escaped.
fn parse_dep_info(text: &str) -> Vec<String> {
    const ESCAPED: &str = "\u{0}";
    let rules = text.lines().filter_map(|line| line.split_once(": "));
    rules
        .flat_map(|(_, files)| {
            let files = files.replace("\\ ", ESCAPED);
            files
                .split_whitespace()
                .map(|file| file.replace(ESCAPED, " "))
                .collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{has_section, parse_dep_info};

    #[test]
    fn sections_are_told_apart() {
        let listing = "  [ 5] .BTF.ext PROGBITS 0 00a0 0040\n  [ 6] .text PROGBITS 0 0 0\n";
        assert!(has_section(listing, ".BTF.ext"));
        assert!(!has_section(listing, ".BTF"));
    }

    #[test]
    fn sources_out_of_dep_info() {
        let text = "/t/overload: /w/a/src/main.rs /w/with\\ space/lib.rs\n\n";
        assert_eq!(
            parse_dep_info(text),
            ["/w/a/src/main.rs", "/w/with space/lib.rs"]
        );
        assert!(parse_dep_info("").is_empty());
    }
}
