//! Header and Via-parameter names the scanner looks for, as perfect hash tables of their first
//! eight letters. The kernel reads an entry and compares; no name is a branch.

use super::swar;

/// A header the filter reads.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Header {
    /// Anything else.
    None = 0,
    /// Via, v.
    Via = 1,
    /// From, f.
    From = 2,
    /// To, t.
    To = 3,
    /// Call-ID, i.
    CallId = 4,
    /// CSeq.
    Cseq = 5,
    /// Max-Forwards: told by its first eight letters, confirmed by the reader.
    MaxForwards = 6,
    /// Event, o.
    Event = 7,
    /// Content-Length, l: told by its first eight letters, confirmed by the scanner.
    ContentLength = 8,
}

/// One entry of [`HEADER_TABLE`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HeaderEntry {
    /// Name in lower case, at most eight letters, zero-padded.
    pub name: u64,
    /// [`Header`] in the low byte, [`COPIED`] when a reply copies the line, the name's length above
    /// [`LENGTH_SHIFT`].
    pub header: u64,
}

/// Bit of [`HeaderEntry::header`]: a reply copies the line.
pub const COPIED: u64 = 0x100;
/// Where the length of the name lies in [`HeaderEntry::header`].
pub const LENGTH_SHIFT: u32 = 16;

/// A parameter of the top Via the filter reads.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Param {
    /// Anything else.
    None = 0,
    /// branch.
    Branch = 1,
    /// rport (RFC 3581).
    Rport = 2,
    /// received.
    Received = 3,
    /// maddr.
    Maddr = 4,
}

/// One entry of [`PARAM_TABLE`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ParamEntry {
    /// Name in lower case, at most eight letters, zero-padded.
    pub name: u64,
    /// [`Param`].
    pub param: u64,
}

const HEADER_BITS: u32 = 6;
const PARAM_BITS: u32 = 3;

const HEADER_NAMES: [(&[u8], Header, bool); 15] = [
    (b"via", Header::Via, true),
    (b"v", Header::Via, true),
    (b"from", Header::From, true),
    (b"f", Header::From, true),
    (b"to", Header::To, true),
    (b"t", Header::To, true),
    (b"call-id", Header::CallId, true),
    (b"i", Header::CallId, true),
    (b"cseq", Header::Cseq, true),
    (b"max-forw", Header::MaxForwards, false),
    (b"event", Header::Event, false),
    (b"o", Header::Event, false),
    (b"content-", Header::ContentLength, false),
    (b"l", Header::ContentLength, false),
    (b"", Header::None, false),
];

const PARAM_NAMES: [(&[u8], Param); 4] = [
    (b"branch", Param::Branch),
    (b"rport", Param::Rport),
    (b"received", Param::Received),
    (b"maddr", Param::Maddr),
];

const fn name_word(name: &[u8]) -> u64 {
    let mut word = 0;
    let mut i = 0;
    while i < name.len() {
        word |= (name[i] as u64) << (8 * i);
        i += 1;
    }
    word
}

const fn slot(word: u64, multiplier: u64, bits: u32) -> u32 {
    (word.wrapping_mul(multiplier) >> (64 - bits)) as u32
}

/// The first odd multiplier of a fixed sequence that gives every name its own slot.
const fn find_multiplier(words: &[u64], bits: u32) -> u64 {
    let mut multiplier: u64 = 0x9e37_79b9_7f4a_7c15;
    loop {
        let mut used: u64 = 0;
        let mut distinct = true;
        let mut i = 0;
        while i < words.len() {
            let bit = 1u64 << slot(words[i], multiplier, bits);
            distinct = distinct && used & bit == 0;
            used |= bit;
            i += 1;
        }
        if distinct {
            return multiplier;
        }
        multiplier = multiplier
            .wrapping_mul(0xd134_2543_de82_ef95)
            .wrapping_add(2);
    }
}

const HEADER_MULTIPLIER: u64 = {
    let mut words = [0; HEADER_NAMES.len()];
    let mut i = 0;
    while i < words.len() {
        words[i] = name_word(HEADER_NAMES[i].0);
        i += 1;
    }
    find_multiplier(&words, HEADER_BITS)
};

const PARAM_MULTIPLIER: u64 = {
    let mut words = [0; PARAM_NAMES.len()];
    let mut i = 0;
    while i < words.len() {
        words[i] = name_word(PARAM_NAMES[i].0);
        i += 1;
    }
    find_multiplier(&words, PARAM_BITS)
};

/// Entries by [`header_slot`]. A name that no entry has is [`Header::None`].
pub static HEADER_TABLE: [HeaderEntry; 1 << HEADER_BITS] = {
    // An unused entry holds a name no header can have.
    let mut table = [HeaderEntry {
        name: u64::MAX,
        header: 0,
    }; 1 << HEADER_BITS];
    let mut i = 0;
    while i < HEADER_NAMES.len() {
        let (name, header, copied) = HEADER_NAMES[i];
        let word = name_word(name);
        table[slot(word, HEADER_MULTIPLIER, HEADER_BITS) as usize] = HeaderEntry {
            name: word,
            header: header as u64
                | (name.len() as u64) << LENGTH_SHIFT
                | if copied { COPIED } else { 0 },
        };
        i += 1;
    }
    table
};

/// Entries by [`param_slot`].
pub static PARAM_TABLE: [ParamEntry; 1 << PARAM_BITS] = {
    let mut table = [ParamEntry {
        name: u64::MAX,
        param: 0,
    }; 1 << PARAM_BITS];
    let mut i = 0;
    while i < PARAM_NAMES.len() {
        let (name, param) = PARAM_NAMES[i];
        let word = name_word(name);
        table[slot(word, PARAM_MULTIPLIER, PARAM_BITS) as usize] = ParamEntry {
            name: word,
            param: param as u64,
        };
        i += 1;
    }
    table
};

/// Slot in [`HEADER_TABLE`] of a lower-case name word.
#[inline(always)]
pub const fn header_slot(name: u64) -> u32 {
    slot(name, HEADER_MULTIPLIER, HEADER_BITS)
}

/// Slot in [`PARAM_TABLE`] of a lower-case name word.
#[inline(always)]
pub const fn param_slot(name: u64) -> u32 {
    slot(name, PARAM_MULTIPLIER, PARAM_BITS)
}

/// The name at the start of a line: its bytes before the first colon or blank, at most eight, in
/// lower case. A name that begins with a blank is empty.
#[inline(always)]
pub const fn header_name(word: u64) -> u64 {
    // OR 0x20 maps no other byte above 0x20 to a letter, digit or hyphen.
    let mask = swar::below(swar::first_of_or_blank(word, b':'));
    (word | swar::ONES * 0x20) & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(line: &str) -> u64 {
        let mut bytes = [b'!'; 8];
        let length = line.len().min(8);
        bytes[..length].copy_from_slice(&line.as_bytes()[..length]);
        let name = header_name(u64::from_le_bytes(bytes));
        let entry = HEADER_TABLE[header_slot(name) as usize];
        if entry.name == name {
            entry.header & 0xff
        } else {
            0
        }
    }

    #[test]
    fn r3261_7_3_3_1_long_and_compact_names_in_any_case() {
        for (name, expected, _) in HEADER_NAMES {
            if name.is_empty() || matches!(name.len(), 8) {
                continue;
            }
            let name = core::str::from_utf8(name).expect("ascii");
            for written in [name.to_uppercase(), name.to_owned()] {
                for line in [
                    std::format!("{written}: x"),
                    std::format!("{written}  : x"),
                    std::format!("{written}\t:"),
                ] {
                    assert_eq!(header(&line), expected as u64, "{line}");
                }
                assert_eq!(header(&std::format!("{written}x: ")), 0);
            }
        }
        assert_eq!(header("Max-Forwards: 70"), Header::MaxForwards as u64);
        for line in [
            "Contact: <sip:a>",
            "m: x",
            "k: 1",
            "C%6Fntact: x",
            " Via: x",
            "\tVia",
        ] {
            assert_eq!(header(line), 0, "{line}");
        }
    }
}
