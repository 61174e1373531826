//! Seeded damage to messages.

use super::Random;

/// Characters that mean something to a SIP parser.
const MARKS: &[u8] = b"\r\n \t:;,=<>\"\\@/%[]?\0\x80";

/// Damages `text` in one to four ways.
pub fn mutate(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for _ in 0..=random.below(4) {
        one(&mut bytes, random);
    }
    bytes
}

fn one(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len());
    match random.below(8) {
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
        _ => {
            let gone = line(bytes, random);
            bytes.drain(gone);
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
