//! The file as it is written: names and types of the keys, with the place of each value.

use serde::Deserialize;
use toml::Spanned;

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub instance: Option<Spanned<String>>,
    pub mode: Option<Spanned<String>>,
    pub ports: Option<Spanned<Vec<Spanned<i64>>>>,
    #[serde(default, rename = "interface")]
    pub interfaces: Vec<Spanned<InterfaceTable>>,
    #[serde(default)]
    pub metrics: MetricsTable,
    #[serde(default)]
    pub sources: SourcesTable,
    #[serde(default)]
    pub replies: RepliesTable,
    #[serde(default)]
    pub emergency: EmergencyTable,
    #[serde(default)]
    pub methods: MethodsTable,
    #[serde(default, rename = "destination")]
    pub destinations: Vec<Spanned<DestinationTable>>,
}

/// `[[interface]]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InterfaceTable {
    pub name: Spanned<String>,
    pub attach: Option<Spanned<String>>,
    pub addresses: Option<Spanned<Vec<Spanned<String>>>>,
    pub macs: Option<Spanned<Vec<Spanned<String>>>>,
}

/// `[metrics]`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MetricsTable {
    pub listen: Option<Spanned<String>>,
    #[serde(default)]
    pub allow_remote: bool,
}

/// `[[destination]]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DestinationTable {
    pub name: Spanned<String>,
    pub host: Option<Spanned<String>>,
    pub number_prefix: Option<Spanned<String>>,
    pub default: Option<Spanned<bool>>,
    pub rate_per_second: Option<Spanned<f64>>,
    pub burst: Option<Spanned<f64>>,
    pub accept_percent: Option<Spanned<f64>>,
}

/// `[sources]`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourcesTable {
    #[serde(default)]
    pub trusted: Vec<Spanned<String>>,
    #[serde(default)]
    pub deny: Vec<Spanned<String>>,
}

/// `[replies]`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RepliesTable {
    pub rate_per_second: Option<Spanned<f64>>,
    pub burst: Option<Spanned<f64>>,
}

/// `[emergency]`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EmergencyTable {
    pub numbers: Option<Spanned<Vec<Spanned<String>>>>,
    pub share_percent: Option<Spanned<f64>>,
    pub source_rate_per_second: Option<Spanned<f64>>,
    pub source_burst: Option<Spanned<f64>>,
}

/// `[methods]`
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "UPPERCASE")]
pub(super) struct MethodsTable {
    pub invite: Option<Spanned<String>>,
    pub message: Option<Spanned<String>>,
    pub register: Option<Spanned<String>>,
    pub subscribe: Option<Spanned<String>>,
    pub options: Option<Spanned<String>>,
    pub publish: Option<Spanned<String>>,
}

/// Every key of the file, to suggest the one that was meant.
pub(super) const KEYS: &[&str] = &[
    "instance",
    "mode",
    "interface",
    "metrics",
    "destination",
    "name",
    "attach",
    "addresses",
    "ports",
    "macs",
    "listen",
    "allow_remote",
    "host",
    "default",
    "rate_per_second",
    "burst",
    "accept_percent",
    "number_prefix",
    "sources",
    "trusted",
    "deny",
    "replies",
    "emergency",
    "numbers",
    "share_percent",
    "source_rate_per_second",
    "source_burst",
    "methods",
    "INVITE",
    "MESSAGE",
    "REGISTER",
    "SUBSCRIBE",
    "OPTIONS",
    "PUBLISH",
];
