//! Seeded damage to messages.

use super::Random;

/// Characters that mean something to a SIP parser.
const MARKS: &[u8] = b"\r\n \t:;,=<>\"\\@/%[]?\0\x80";

/// What may stand where a blank may.
const BLANKS: [&str; 5] = [" ", "\t", "  ", "\r\n ", "\r\n\t"];
/// Words that mean something to a SIP parser.
const WORDS: [&str; 16] = [
    ";tag=1",
    ";maddr=203.0.113.9",
    ";rport",
    ";received=203.0.113.9",
    "branch=",
    "z9hG4bK",
    "SIP/2.0",
    "\r\nVia: ",
    "\r\nTo: ",
    "\r\nl: 5",
    "\r\nContent-Length: 9",
    "\r\n\r\n",
    "\r\nMax-Forwards: 0",
    ";tag",
    "INVITE",
    "%00",
];

/// Damages `text` in one to four ways.
pub fn mutate(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for _ in 0..=random.below(4) {
        one(&mut bytes, random);
    }
    bytes
}

/// Without control characters, which are left to tests of their own.
pub fn sanitised(mut bytes: Vec<u8>) -> Vec<u8> {
    for byte in &mut bytes {
        if *byte < b' ' && !b"\t\r\n".contains(byte) {
            *byte = b'c';
        }
    }
    bytes
}

fn one(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len());
    match random.below(12) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = MARKS[random.below(MARKS.len())],
        2 => {
            let length = 1 + random.below(6);
            bytes.drain(at..(at + length).min(bytes.len()));
        }
        3 => bytes.insert(at, MARKS[random.below(MARKS.len())]),
        4 => bytes.insert(at, random.next_u64() as u8),
        5 => {
            let (from, to) = (line(bytes, random), line(bytes, random));
            let copy = bytes[from.clone()].to_vec();
            bytes.splice(to.start..to.start, copy);
        }
        6 => {
            let (one, two) = (line(bytes, random), line(bytes, random));
            let (one, two) = if one.start <= two.start {
                (one, two)
            } else {
                (two, one)
            };
            if one.end <= two.start {
                let (first, second) = (bytes[one.clone()].to_vec(), bytes[two.clone()].to_vec());
                bytes.splice(two, first);
                bytes.splice(one, second);
            }
        }
        7 => {
            let gone = line(bytes, random);
            bytes.drain(gone);
        }
        8 => bytes.truncate(at),
        9 => {
            // Folds and blanks where there is one: longer than anyone writes them.
            let blank = bytes[at..].iter().position(|byte| b" ;,".contains(byte));
            let at = blank.map_or(at, |blank| at + blank + 1);
            let blanks = BLANKS[random.below(BLANKS.len())].repeat(1 + random.below(4));
            bytes.splice(at..at, blanks.bytes());
        }
        10 => {
            let digit = bytes[at..].iter().position(u8::is_ascii_digit);
            if let Some(digit) = digit {
                bytes[at + digit] = b'0' + random.below(10) as u8;
            }
        }
        _ => {
            let word = WORDS[random.below(WORDS.len())];
            bytes.splice(at..at, word.bytes());
        }
    }
}

/// A line of the message with its line feed.
fn line(bytes: &[u8], random: &mut Random) -> std::ops::Range<usize> {
    let at = random.below(bytes.len());
    let start = bytes[..at]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |feed| feed + 1);
    let end = bytes[at..]
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(bytes.len(), |feed| at + feed + 1);
    start..end
}
