//! Follows the interfaces while the controller runs: what changes there is in the kernel program's record
//! within the second.

use std::{
    collections::BTreeMap,
    io,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{FutureExt, Stream, StreamExt, stream};
use rtnetlink::{
    MulticastGroup, new_multicast_connection, packet_core::NetlinkPayload,
    packet_route::RouteNetlinkMessage,
};
use tokio::{task::JoinHandle, time::sleep};

use super::{
    filter::{FilterError, Owned},
    interface::{self, InterfaceError},
    protect::{Change, Protected},
};

/// Changes come in groups: an interface that comes up gets its addresses one after another.
const SETTLE: Duration = Duration::from_millis(100);
/// Before the kernel is asked again for its messages, which it has ended.
const AGAIN: Duration = Duration::from_secs(1);

/// The kernel's messages about addresses and interfaces.
pub struct Messages {
    /// Numbers of the interfaces that each message is about.
    numbers: Pin<Box<dyn Stream<Item = Option<u32>>>>,
    connection: Option<JoinHandle<()>>,
}

impl Messages {
    /// Asks for them. Where that fails, nothing comes, and an error is logged.
    pub fn subscribe() -> Self {
        Self::new().unwrap_or_else(|error| {
            tracing::error!(
                "changed addresses are found at intervals only, the kernel does not tell them: {error}"
            );
            Self {
                numbers: Box::pin(stream::pending()),
                connection: None,
            }
        })
    }

    fn new() -> io::Result<Self> {
        let groups = [
            MulticastGroup::Link,
            MulticastGroup::Ipv4Ifaddr,
            MulticastGroup::Ipv6Ifaddr,
        ];
        let (connection, _, messages) = new_multicast_connection(&groups)?;
        Ok(Self {
            numbers: Box::pin(messages.map(|(message, _)| number(&message.payload))),
            connection: Some(tokio::spawn(connection)),
        })
    }

    /// Returns after a message about one of these interfaces and those that come with it.
    pub async fn next(&mut self, interfaces: &[u32]) {
        loop {
            match self.numbers.next().await {
                Some(Some(number)) if interfaces.contains(&number) => break,
                Some(_) => {}
                None => {
                    // The kernel had more messages than it kept; some are lost.
                    sleep(AGAIN).await;
                    *self = Self::subscribe();
                    return;
                }
            }
        }
        sleep(SETTLE).await;
        while let Some(Some(_)) = self.numbers.next().now_or_never() {}
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            connection.abort();
        }
    }
}

fn number(payload: &NetlinkPayload<RouteNetlinkMessage>) -> Option<u32> {
    let NetlinkPayload::InnerMessage(message) = payload else {
        return None;
    };
    match message {
        RouteNetlinkMessage::NewLink(link) | RouteNetlinkMessage::DelLink(link) => {
            Some(link.header.index)
        }
        RouteNetlinkMessage::NewAddress(address) | RouteNetlinkMessage::DelAddress(address) => {
            Some(address.header.index)
        }
        _ => None,
    }
}

impl Owned {
    /// Looks at the interfaces and takes up what changed; gives each change once.
    pub async fn follow(&mut self) -> Vec<Result<Change, FilterError>> {
        let mut found = Vec::new();
        for attached in &mut self.attached {
            let interface = match interface::by_index(attached.protected.index).await {
                Ok(interface) => interface,
                // Told as a lost filter.
                Err(InterfaceError::UnknownIndex(_)) => continue,
                Err(error) => {
                    found.push(Err(error.into()));
                    continue;
                }
            };
            let now = Protected::new(&attached.wanted, &interface);
            let changes = attached.protected.changes(&now);
            if now.record_differs(&attached.protected)
                && let Err(error) = self.filter.protect(attached.slot, &now)
            {
                // The next look tries again.
                found.push(Err(error));
                continue;
            }
            attached.protected = now;
            found.extend(changes.into_iter().map(Ok));
        }
        found
    }
}

/// How often which kind of change came, by interface.
#[derive(Debug, Default)]
pub struct Tally(Mutex<BTreeMap<(String, &'static str), u64>>);

impl Tally {
    /// Begins at zero for these interfaces.
    pub fn new<'a>(interfaces: impl IntoIterator<Item = &'a str>) -> Self {
        let mut counts = BTreeMap::new();
        for interface in interfaces {
            for kind in Change::KINDS {
                counts.insert((interface.to_owned(), kind), 0);
            }
        }
        Self(Mutex::new(counts))
    }

    /// Counts one.
    pub fn count(&self, change: &Change) {
        let key = (change.interface().to_owned(), change.kind());
        *self.counts().entry(key).or_default() += 1;
    }

    /// Interface, kind and number of each.
    pub fn all(&self) -> Vec<(String, &'static str, u64)> {
        self.counts()
            .iter()
            .map(|((interface, kind), count)| (interface.clone(), *kind, *count))
            .collect()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<(String, &'static str), u64>> {
        // Numbers are whole even when a holder panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted_by_interface_and_kind() {
        let tally = Tally::new(["eth0", "eth1"]);
        assert!(tally.all().iter().all(|(_, _, count)| *count == 0));
        assert_eq!(tally.all().len(), 2 * Change::KINDS.len());
        let added = Change::AddressAdded {
            interface: "eth1".to_owned(),
            address: "192.0.2.1".parse().expect("address"),
        };
        tally.count(&added);
        tally.count(&added);
        let counted: Vec<_> = tally.all().into_iter().filter(|c| c.2 > 0).collect();
        assert_eq!(counted, [("eth1".to_owned(), "address_added", 2)]);
    }
}
