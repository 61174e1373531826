//! A receiver that only keeps what comes.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result, anyhow};

use crate::namespace::{Namespace, Socket};

/// Receives every datagram that reaches an address of a namespace, and keeps it.
#[derive(Debug)]
pub struct Sink {
    datagrams: Arc<Mutex<Vec<Vec<u8>>>>,
    end: Arc<AtomicBool>,
    reader: Option<JoinHandle<Result<()>>>,
}

impl Sink {
    /// Binds `address:port` and starts to receive.
    pub fn start(namespace: &Namespace, address: &str) -> Result<Self> {
        Self::read(namespace.bind(address)?)
    }

    /// Receives from a socket that is already bound.
    pub fn read(socket: Socket) -> Result<Self> {
        let datagrams = Arc::new(Mutex::new(Vec::new()));
        let end = Arc::new(AtomicBool::new(false));
        let (kept, ended) = (Arc::clone(&datagrams), Arc::clone(&end));
        let reader = thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                if let Some((datagram, _)) = socket.receive(Duration::from_millis(20))? {
                    kept.lock()
                        .map_err(|_| anyhow!("a reader of the sink panicked"))?
                        .push(datagram);
                }
            }
            Ok(())
        });
        Ok(Self {
            datagrams,
            end,
            reader: Some(reader),
        })
    }

    /// Ends after what was sent before has been read, and gives every datagram in order of arrival.
    pub fn stop(mut self) -> Result<Vec<String>> {
        thread::sleep(Duration::from_millis(300));
        self.join()?;
        let datagrams = self
            .datagrams
            .lock()
            .map_err(|_| anyhow!("the reader of the sink panicked"))?;
        Ok(datagrams
            .iter()
            .map(|datagram| String::from_utf8_lossy(datagram).into_owned())
            .collect())
    }

    fn join(&mut self) -> Result<()> {
        self.end.store(true, Ordering::Relaxed);
        let reader = self.reader.take().context("the sink has ended")?;
        reader.join().map_err(|_| anyhow!("the sink panicked"))?
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if self.reader.is_some()
            && let Err(error) = self.join()
        {
            eprintln!("sink: {error:#}");
        }
    }
}
