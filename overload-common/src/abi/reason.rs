//! One reason for each verdict: counter index, metric label and the table in the docs.

/// What happened to one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Not ours to judge: handed to the host.
    Pass,
    /// Judged and handed to the host.
    Admit,
    /// Answered with 503.
    Refuse,
    /// Taken off the wire because its answer is known to be none.
    Absorb,
    /// Refused without an answer.
    Drop,
}

impl Verdict {
    /// Name in metrics and status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Admit => "admit",
            Self::Refuse => "refuse",
            Self::Absorb => "absorb",
            Self::Drop => "drop",
        }
    }
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $verdict:ident;)+) => {
        /// Why a packet got its verdict. Each reason belongs to exactly one verdict.
        #[repr(u32)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Reason {
            /// Every reason, in counter order.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Label in metrics, status and docs.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The verdict this reason explains.
            pub const fn verdict(self) -> Verdict {
                match self { $(Self::$variant => Verdict::$verdict,)+ }
            }

            /// What it means and what the operator can do, one paragraph.
            #[cfg(any(test, feature = "std"))]
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii(),)+ }
            }
        }
    };
}

reasons! {
    /// Not UDP to a protected address and port, or for another MAC address, or with more than two VLAN tags.
    Unrelated = "unrelated", Pass;
    /// IPv6 with more than four extension headers before UDP, or routed by its own header to another host.
    ExtensionHeaders = "extension_headers", Pass;
    /// An IP fragment; SIP in fragments is the proxy's to judge. A sender can fragment on purpose: watch its rate.
    Fragment = "fragment", Pass;
    /// The lengths of frame, IP and UDP contradict each other.
    BadLength = "bad_length", Pass;
    /// A keep-alive (RFC 5626 3.5.1): empty, or at most 64 bytes that begin with NUL, a blank or a line end.
    Keepalive = "keepalive", Pass;
    /// A STUN message (RFC 5626 3.5).
    Stun = "stun", Pass;
    /// A provisional response.
    Response1xx = "response_1xx", Pass;
    /// A success response.
    Response2xx = "response_2xx", Pass;
    /// A redirection response.
    Response3xx = "response_3xx", Pass;
    /// A client error response.
    Response4xx = "response_4xx", Pass;
    /// A server error response.
    Response5xx = "response_5xx", Pass;
    /// A global failure response.
    Response6xx = "response_6xx", Pass;
    /// Begins like a response but has no status class.
    ResponseOther = "response_other", Pass;
    /// Neither a known method nor a response: another protocol or an extension method.
    Unrecognised = "unrecognised", Pass;
    /// An ACK that is not for a refusal of ours.
    Ack = "ack", Pass;
    /// A CANCEL: never judged (RFC 3261 8.2.7).
    Cancel = "cancel", Pass;
    /// BYE, INFO, NOTIFY, PRACK, REFER or UPDATE: not judged.
    OtherMethod = "other_method", Pass;
    /// The To header has a tag: part of a dialog the host already serves.
    InDialog = "in_dialog", Pass;
    /// A SUBSCRIBE for the load-control event package (RFC 7200 5.2).
    LoadControl = "load_control", Pass;
    /// Max-Forwards is 0: the proxy answers 483.
    MaxForwardsZero = "max_forwards_zero", Pass;
    /// The header section does not end within 4,032 bytes or within the datagram.
    NoHeaderEnd = "no_header_end", Pass;
    /// More header rows than the scan follows: at least 64, at most 127.
    TooManyLines = "too_many_lines", Pass;
    /// A line of the header section does not end in CRLF.
    BareLineFeed = "bare_line_feed", Pass;
    /// The request line is not `Method SP Request-URI SP SIP/2.0`.
    BadRequestLine = "bad_request_line", Pass;
    /// The Request-URI's scheme is neither sip, sips nor tel, or the URI cannot be split.
    UnsupportedUri = "unsupported_uri", Pass;
    /// Via, From, To, Call-ID or CSeq is missing (RFC 3261 8.1.1).
    MissingHeader = "missing_header", Pass;
    /// From, To, Call-ID, CSeq, Max-Forwards or Content-Length stands more than once.
    DuplicateHeader = "duplicate_header", Pass;
    /// A header that a reply needs, or Content-Length, cannot be parsed, or a line has no name.
    BadHeader = "bad_header", Pass;
    /// Content-Length states more than the datagram carries: the proxy answers 400 (RFC 3261 18.3).
    ShortBody = "short_body", Pass;
    /// The CSeq method differs from the request's, or its number is no 32-bit number.
    BadCseq = "bad_cseq", Pass;
    /// The top Via cannot be parsed.
    BadVia = "bad_via", Pass;
    /// The top Via names a transport other than UDP.
    ViaTransport = "via_transport", Pass;
    /// The top Via has maddr: answering would send to an address of the sender's choice.
    ViaMaddr = "via_maddr", Pass;
    /// The top Via has no branch with the RFC 3261 cookie: no transaction to remember.
    NoBranch = "no_branch", Pass;
    /// The filter's own tables could not be read: it fails open.
    Unconfigured = "unconfigured", Pass;
    /// From a source under a `deny` prefix: left to the host's packet filter, charged to nobody.
    Denied = "denied", Pass;
    /// A method that the configuration exempts.
    ExemptMethod = "exempt_method", Pass;
    /// The interface is in bypass mode: nothing is judged.
    Bypass = "bypass", Pass;

    /// Within the limit of every control that matched.
    WithinLimit = "within_limit", Admit;
    /// An emergency call within the reserved share.
    Emergency = "emergency", Admit;
    /// No control matched.
    NoControl = "no_control", Admit;
    /// A copy of a request that was admitted; charged to nobody.
    AdmittedCopy = "admitted_copy", Admit;

    /// Above a rate limit.
    RateLimit = "rate_limit", Refuse;
    /// Outside the accepted percentage.
    PercentLimit = "percent_limit", Refuse;
    /// A copy of a request that was refused; the same answer again.
    RefusedCopy = "refused_copy", Refuse;

    /// The ACK to a refusal of ours.
    OwnAck = "own_ack", Absorb;
    /// A copy beyond what a real client sends (7 INVITE, 11 others), or nearer than T1/2 to the last.
    SurplusCopy = "surplus_copy", Absorb;

    /// Refused, but the answer would exceed the request by 100 bytes or the MTU, or the driver could not grow the frame.
    Unanswerable = "unanswerable", Drop;
    /// Refused, and the source's prefix has used up its replies: none of its addresses has acknowledged one, and
    /// it is not trusted.
    ReplyBudget = "reply_budget", Drop;
    /// Refused, and the answer would go to an address or port that must never be answered.
    Martian = "martian", Drop;
}

impl Reason {
    /// Number of reasons, the size of the counter map.
    pub const COUNT: usize = Self::ALL.len();
}

/// One per-CPU entry of map `REASONS`, indexed by [`Reason`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReasonCounter {
    /// Packets whose verdict was carried out.
    pub enforced: u64,
    /// Packets that passed although this was their verdict, in shadow mode.
    pub shadow: u64,
}
const _: () = assert!(size_of::<ReasonCounter>() == 16);

macro_rules! events {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal;)+) => {
        /// Things that happen beside a verdict; index of the per-CPU map `EVENTS`.
        #[repr(u32)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Event {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Event {
            /// Every event, in counter order.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Label in metrics, status and docs.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What it means, one paragraph.
            #[cfg(any(test, feature = "std"))]
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii(),)+ }
            }
        }
    };
}

events! {
    /// Admitted without being remembered: both sets of its slots are full. Its copies are judged anew.
    AdmittedUntracked = "admitted_untracked";
    /// A live refused transaction was overwritten by another. Its copies are judged anew.
    RefusedForgotten = "refused_forgotten";
    /// Refused because eight tries to charge a bucket failed against other CPUs.
    BucketContended = "bucket_contended";
    /// Admitted because a control record was being rewritten at every try to read it.
    RecordContended = "record_contended";
}

impl Event {
    /// Number of events, the size of the counter map.
    pub const COUNT: usize = Self::ALL.len();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_reason_has_its_own_index_name_and_help() {
        let mut names = HashSet::new();
        for (index, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index);
            assert!(names.insert(reason.name()), "{} twice", reason.name());
            assert!(reason.help().ends_with('.'), "{}", reason.name());
            assert!(!reason.verdict().name().is_empty());
        }
        for (index, event) in Event::ALL.iter().enumerate() {
            assert_eq!(*event as usize, index);
            assert!(names.insert(event.name()), "{} twice", event.name());
            assert!(event.help().ends_with('.'));
        }
    }
}
