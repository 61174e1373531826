//! Arrays in memory shared with the kernel: single words change atomically, and a control record
//! changes under its sequence word.

use std::{
    io,
    marker::PhantomData,
    os::fd::{AsFd, AsRawFd},
    ptr::{self, NonNull},
    sync::atomic::{AtomicU64, Ordering, fence},
};

use aya::{Pod, maps::MapData};
use overload_common::abi::ControlRecord;

/// Bytes of the kernel's unit of array entries.
const WORD: usize = size_of::<u64>();

/// An array map of values of type `V`, all of it in this process's memory.
pub struct MappedArray<V> {
    start: NonNull<AtomicU64>,
    entries: usize,
    value: PhantomData<V>,
}

// SAFETY: the memory is reached through atomic words only, and stays mapped until drop.
unsafe impl<V> Send for MappedArray<V> {}
// SAFETY: as above.
unsafe impl<V> Sync for MappedArray<V> {}

impl<V: Pod> MappedArray<V> {
    const WORDS: usize = {
        assert!(size_of::<V>().is_multiple_of(WORD));
        size_of::<V>() / WORD
    };

    /// Maps the array; the map must have been created with `BPF_F_MMAPABLE` and `entries` entries.
    pub fn new(map: &MapData, entries: usize) -> io::Result<Self> {
        let length = entries * size_of::<V>();
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.fd().as_fd().as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(Self {
            start,
            entries,
            value: PhantomData,
        })
    }

    /// The words of one entry; empty when there is no such entry.
    pub fn words(&self, index: usize) -> &[AtomicU64] {
        if index >= self.entries {
            return &[];
        }
        // SAFETY: inside the mapping, which `new` made for `entries` values and which lives as long as
        // `self`; page-aligned; the kernel too changes it by whole words only.
        unsafe {
            std::slice::from_raw_parts(self.start.as_ptr().add(index * Self::WORDS), Self::WORDS)
        }
    }
}

impl<V> Drop for MappedArray<V> {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; no reference outlives `self`.
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.entries * size_of::<V>());
        }
    }
}

/// Tries of a reader before it gives up on a record that is being written.
const READ_TRIES: usize = 1000;

/// Words of a control record, the first being its sequence.
type ControlWords = [u64; size_of::<ControlRecord>() / WORD];

fn to_words(record: &ControlRecord) -> ControlWords {
    // SAFETY: `repr(C)` without padding, integers only, of the same size.
    unsafe { std::mem::transmute::<ControlRecord, ControlWords>(*record) }
}

fn from_words(words: ControlWords) -> ControlRecord {
    // SAFETY: every bit pattern is a valid record of the same size.
    unsafe { std::mem::transmute::<ControlWords, ControlRecord>(words) }
}

/// Writes a record so that no reader takes a mixture for it; its sequence is chosen here.
/// One writer a record.
pub fn write_control(words: &[AtomicU64], record: &ControlRecord) {
    let Some((sequence, fields)) = words.split_first() else {
        return;
    };
    let odd = sequence.load(Ordering::Relaxed) | 1;
    sequence.store(odd, Ordering::Relaxed);
    fence(Ordering::Release);
    for (word, value) in fields.iter().zip(&to_words(record)[1..]) {
        word.store(*value, Ordering::Relaxed);
    }
    fence(Ordering::Release);
    sequence.store(odd.wrapping_add(1), Ordering::Relaxed);
}

/// Reads a record whole; `None` when a writer never left it alone.
pub fn read_control(words: &[AtomicU64]) -> Option<ControlRecord> {
    let (sequence, fields) = words.split_first()?;
    for _ in 0..READ_TRIES {
        let before = sequence.load(Ordering::Acquire);
        let mut copy = ControlWords::default();
        copy[0] = before;
        for (value, word) in copy[1..].iter_mut().zip(fields) {
            *value = word.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        if before & 1 == 0 && sequence.load(Ordering::Relaxed) == before {
            return Some(from_words(copy));
        }
        std::hint::spin_loop();
    }
    None
}

#[cfg(test)]
mod tests {
    use std::{array, sync::Arc, thread};

    use super::*;

    fn memory() -> [AtomicU64; 16] {
        array::from_fn(|_| AtomicU64::new(0))
    }

    #[test]
    fn a_record_survives_the_way_through_memory() {
        let words = memory();
        let record = ControlRecord {
            sequence: 0,
            algorithm: 1,
            generation: 2,
            period_ticks: 3,
            tolerance_ticks: [4, 5, 6, 7],
            accept_below: 8,
            valid_from_ns: 9,
            valid_until_ns: u64::MAX,
            emergency_period_ticks: 11,
            emergency_tolerance_ticks: 12,
            reserved: [0; 4],
        };
        write_control(&words, &record);
        let read = read_control(&words).expect("at rest");
        assert_eq!(
            read,
            ControlRecord {
                sequence: 2,
                ..record
            }
        );
        write_control(&words, &record);
        assert_eq!(read_control(&words).expect("at rest").sequence, 4);
    }

    #[test]
    fn a_record_left_half_written_is_not_read_and_is_repaired_by_the_next_write() {
        let words = memory();
        words[0].store(5, Ordering::Relaxed);
        assert_eq!(read_control(&words), None);
        write_control(&words, &ControlRecord::default());
        assert_eq!(read_control(&words).expect("at rest").sequence, 6);
    }

    #[test]
    fn a_reader_never_sees_a_mixture() {
        let words = Arc::new(memory());
        let writer = thread::spawn({
            let words = Arc::clone(&words);
            move || {
                for n in 1..20_000u64 {
                    let record = ControlRecord {
                        period_ticks: n,
                        tolerance_ticks: [n; 4],
                        accept_below: n,
                        ..ControlRecord::default()
                    };
                    write_control(&words[..], &record);
                }
            }
        });
        while !writer.is_finished() {
            if let Some(record) = read_control(&words[..]) {
                let n = record.period_ticks;
                assert_eq!((record.tolerance_ticks, record.accept_below), ([n; 4], n));
            }
        }
        writer.join().expect("writer");
    }
}
