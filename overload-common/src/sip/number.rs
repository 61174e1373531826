//! Telephone numbers (RFC 3966) as the kernel compares them.

/// Digits that are compared; E.164 has no longer number.
pub const NUMBER_DIGITS: u32 = 15;

/// A number or the first digits of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Number {
    /// Begins with `+`.
    pub global: bool,
    /// Four bits a digit, the last one lowest, and a one above the first.
    pub digits: u64,
}

impl Number {
    /// Reads digits and visual separators `-`, `.`, `(`, `)`, after at most one `+`. `None`: other characters,
    /// no digit, or more than [`NUMBER_DIGITS`].
    pub fn read(text: &str) -> Option<Self> {
        let (global, rest) = match text.strip_prefix('+') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mut digits, mut count) = (1, 0);
        for byte in rest.bytes() {
            match byte {
                b'0'..=b'9' => {
                    digits = digits << 4 | u64::from(byte - b'0');
                    count += 1;
                }
                b'-' | b'.' | b'(' | b')' => {}
                _ => return None,
            }
            if count > NUMBER_DIGITS {
                return None;
            }
        }
        (count > 0).then_some(Self { global, digits })
    }

    /// How many digits it has.
    #[inline(always)]
    pub const fn count(self) -> u32 {
        self.digits.ilog2() / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_no_part_of_a_number() {
        let number = Number::read("+1-555.123(0001)").expect("a number");
        assert_eq!(number, Number::read("+15551230001").expect("a number"));
        assert_eq!((number.global, number.digits), (true, 0x1155_5123_0001));
        assert_eq!(number.count(), 11);
        assert_eq!(Number::read("112").map(Number::count), Some(3));
        for text in ["", "+", "1a", "++1", "1+", "-", "1234567890123456", "1 2"] {
            assert_eq!(Number::read(text), None, "{text}");
        }
    }
}
