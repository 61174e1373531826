//! SIP (RFC 3261) as far as kernel and user space must read it alike.

mod method;
mod names;
mod number;
pub mod swar;
mod tag;
mod uri;

pub use method::{Method, MethodName};
pub use names::{
    COPIED, HEADER_TABLE, Header, HeaderEntry, LENGTH_SHIFT, PARAM_TABLE, Param, ParamEntry,
    header_name, header_slot, param_slot,
};
pub use number::{NUMBER_DIGITS, Number};
pub use tag::{TAG_LEN, TAG_PREFIX, Tag, tag_hash};
#[cfg(any(test, feature = "std"))]
pub use uri::canonical_host;
pub use uri::host_key;
