//! Request methods.

/// A method as far as the filter tells them apart.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Judged.
    Invite = 0,
    /// Judged (RFC 3428).
    Message = 1,
    /// Judged.
    Register = 2,
    /// Judged (RFC 6665).
    Subscribe = 3,
    /// Judged.
    Options = 4,
    /// Judged (RFC 3903).
    Publish = 5,
    /// Passed, or absorbed when it answers a refusal of ours.
    Ack = 6,
    /// Passed.
    Cancel = 7,
    /// BYE, INFO, NOTIFY, PRACK, REFER, UPDATE: passed.
    Other = 8,
}

const fn word(name: [u8; 8]) -> u64 {
    u64::from_le_bytes(name)
}

const SIX: u64 = 0x0000_ffff_ffff_ffff;
const SEVEN: u64 = 0x00ff_ffff_ffff_ffff;
const FIVE: u64 = 0x0000_00ff_ffff_ffff;
const FOUR: u64 = 0x0000_0000_ffff_ffff;

/// A method as it stands in a start line: one number, so that telling them apart is one choice of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodName(u32);

impl MethodName {
    /// A method whose name has `length` letters.
    pub const fn new(method: Method, length: u32) -> Self {
        Self((method as u32) << 8 | length)
    }

    /// [`Method`] as a number.
    #[inline(always)]
    pub const fn method(self) -> u32 {
        self.0 >> 8
    }

    /// Letters of the name.
    #[inline(always)]
    pub const fn length(self) -> u32 {
        self.0 & 0xff
    }
}

impl Method {
    /// Reads the method from the first sixteen bytes of a start line, little-endian words. `None` is no
    /// method of the IANA registry. Methods are case-sensitive (RFC 3261 7.1).
    #[inline(always)]
    pub const fn from_start(first: u64, second: u64) -> Option<MethodName> {
        // The frequent ones first.
        if first & SEVEN == word(*b"INVITE \0") {
            return Some(MethodName::new(Self::Invite, 6));
        }
        if first & FOUR == word(*b"ACK \0\0\0\0") {
            return Some(MethodName::new(Self::Ack, 3));
        }
        if first & FOUR == word(*b"BYE \0\0\0\0") {
            return Some(MethodName::new(Self::Other, 3));
        }
        if first == word(*b"OPTIONS ") {
            return Some(MethodName::new(Self::Options, 7));
        }
        if first == word(*b"REGISTER") && second & 0xff == 0x20 {
            return Some(MethodName::new(Self::Register, 8));
        }
        if first == word(*b"SUBSCRIB") && second & 0xffff == 0x2045 {
            return Some(MethodName::new(Self::Subscribe, 9));
        }
        if first == word(*b"MESSAGE ") {
            return Some(MethodName::new(Self::Message, 7));
        }
        if first == word(*b"PUBLISH ") {
            return Some(MethodName::new(Self::Publish, 7));
        }
        if first & SEVEN == word(*b"CANCEL \0") {
            return Some(MethodName::new(Self::Cancel, 6));
        }
        if first & SEVEN == word(*b"NOTIFY \0") || first & SEVEN == word(*b"UPDATE \0") {
            return Some(MethodName::new(Self::Other, 6));
        }
        if first & SIX == word(*b"PRACK \0\0") || first & SIX == word(*b"REFER \0\0") {
            return Some(MethodName::new(Self::Other, 5));
        }
        if first & FIVE == word(*b"INFO \0\0\0") {
            return Some(MethodName::new(Self::Other, 4));
        }
        None
    }

    /// The method's name, as in the CSeq header.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invite => "INVITE",
            Self::Message => "MESSAGE",
            Self::Register => "REGISTER",
            Self::Subscribe => "SUBSCRIBE",
            Self::Options => "OPTIONS",
            Self::Publish => "PUBLISH",
            Self::Ack => "ACK",
            Self::Cancel => "CANCEL",
            Self::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<MethodName> {
        let mut bytes = [0; 16];
        let length = line.len().min(16);
        bytes[..length].copy_from_slice(&line.as_bytes()[..length]);
        let all = u128::from_le_bytes(bytes);
        Method::from_start(all as u64, (all >> 64) as u64)
    }

    #[test]
    fn registered_methods_are_known_and_case_matters() {
        for method in [
            Method::Invite,
            Method::Message,
            Method::Register,
            Method::Subscribe,
            Method::Options,
            Method::Publish,
            Method::Ack,
            Method::Cancel,
        ] {
            let line = std::format!("{} sip:a@b SIP/2.0", method.name());
            let expected = MethodName::new(method, method.name().len() as u32);
            assert_eq!(read(&line), Some(expected));
            assert_eq!(
                (expected.method(), expected.length()),
                (method as u32, method.name().len() as u32)
            );
            assert_eq!(read(&line.to_lowercase()), None);
            assert_eq!(read(&line.replacen(' ', "X ", 1)), None);
        }
        for name in ["BYE", "INFO", "PRACK", "REFER", "NOTIFY", "UPDATE"] {
            let line = std::format!("{name} sip:a@b SIP/2.0");
            assert_eq!(
                read(&line),
                Some(MethodName::new(Method::Other, name.len() as u32))
            );
        }
        for line in [
            "",
            "INVITE",
            "SIP/2.0 200 OK",
            "NEWMETHOD sip:a@b SIP/2.0",
            "RE%47IST%45R sip:a",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
