//! The links of an instance on their way from an earlier run to this one: kept, made, given up.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
};

use aya::programs::ProgramFd;

use super::{
    attach::{self, Notice},
    filter::{FilterError, link_error},
    interface::{self, AttachMode, Interface},
    link::{Link, LinkInfo},
    pins::Pins,
};
use crate::config::{self, Config};

/// A link that an earlier run left.
pub(super) struct Earlier {
    /// Name of its pin: the interface's when it was attached.
    name: String,
    link: Link,
    info: LinkInfo,
}

/// An interface of the configuration on its way to a filter.
pub(super) struct Place<'a> {
    /// What is configured for it.
    pub wanted: &'a config::Interface,
    /// What it is now.
    pub interface: Interface,
    /// The earlier run's, with its mode.
    pub kept: Option<(Earlier, AttachMode)>,
}

/// Looks at the interfaces of the configuration and at what an earlier run left, and changes nothing but
/// the pins of dead links and of version 0.1. Gives the links to interfaces no longer configured apart.
pub(super) async fn survey<'a>(
    pins: &Pins,
    config: &'a Config,
) -> Result<(Vec<Place<'a>>, Vec<Earlier>), FilterError> {
    let mut places: Vec<Place<'a>> = Vec::new();
    for wanted in &config.interfaces {
        let interface = interface::by_name(&wanted.name).await?;
        if places.iter().any(|p| p.interface.index == interface.index) {
            return Err(FilterError::SameInterface {
                interface: interface.name,
                other: wanted.name.clone(),
            });
        }
        places.push(Place {
            wanted,
            interface,
            kept: None,
        });
    }
    adopt_single_link(pins).await?;
    let mut released = Vec::new();
    for earlier in earlier_links(pins)? {
        let index = earlier.info.ifindex;
        if let Some(place) = places.iter_mut().find(|p| p.interface.index == index) {
            let wanted = place.wanted.attach;
            let mode = attach::check_takeover(earlier.info, &place.interface, wanted)?;
            place.kept = Some((earlier, mode));
        } else {
            // Of another network namespace it could not be told what it protects.
            let interface = interface::by_index(index).await?;
            attach::check_takeover(earlier.info, &interface, config::Attach::Auto)?;
            released.push(earlier);
        }
    }
    Ok((places, released))
}

/// The interfaces that an earlier run's filter is on.
pub(super) fn earlier_names(places: &[Place<'_>], released: &[Earlier]) -> String {
    let kept = places
        .iter()
        .filter(|place| place.kept.is_some())
        .map(|place| place.interface.name.as_str());
    let names: Vec<&str> = kept
        .chain(released.iter().map(|r| r.name.as_str()))
        .collect();
    names.join(", ")
}

/// Version 0.1 had one link, under another name.
async fn adopt_single_link(pins: &Pins) -> Result<(), FilterError> {
    let Some((_, info)) = open_link(&pins.single_link())? else {
        return Ok(());
    };
    if info.ifindex == 0 {
        // Its interface is gone; it is removed with the rest.
        return Ok(pins.remove_single_link()?);
    }
    let interface = interface::by_index(info.ifindex).await?;
    Ok(pins.adopt_single_link(&interface.name)?)
}

/// The links that an earlier run left; those whose interface is gone are removed.
fn earlier_links(pins: &Pins) -> Result<Vec<Earlier>, FilterError> {
    let mut links = Vec::new();
    for name in pins.interfaces()? {
        match open_link(&pins.link(&name))? {
            Some((link, info)) if info.ifindex != 0 => links.push(Earlier { name, link, info }),
            _ => pins.remove_link(&name)?,
        }
    }
    Ok(links)
}

fn open_link(path: &Path) -> Result<Option<(Link, LinkInfo)>, FilterError> {
    match Link::open(path) {
        Ok(link) => {
            let info = link.info().map_err(link_error("look at"))?;
            Ok(Some((link, info)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(link_error("open")(source)),
    }
}

/// For each place its new link, with none where the earlier one is kept.
pub(super) type NewLinks = Vec<Option<(Link, AttachMode)>>;

/// On an error those that were made end by being dropped.
pub(super) fn attach_new(
    places: &[Place<'_>],
    programs: &[BorrowedFd<'_>],
    notices: &mut Vec<Notice>,
) -> Result<NewLinks, FilterError> {
    let mut links = Vec::new();
    for (place, program) in places.iter().zip(programs) {
        let wanted = place.wanted.attach;
        links.push(match place.kept {
            Some(_) => None,
            None => Some(attach::attach(*program, &place.interface, wanted, notices)?),
        });
    }
    Ok(links)
}

/// Puts the new programs in the place of the earlier ones, all or none.
pub(super) fn replace(
    places: &[Place<'_>],
    programs: &[BorrowedFd<'_>],
) -> Result<(), FilterError> {
    let mut replaced: Vec<(&Link, ProgramFd)> = Vec::new();
    for (place, program) in places.iter().zip(programs) {
        let Some((Earlier { link, info, .. }, _)) = &place.kept else {
            continue;
        };
        let before = attach::program_info(info.program_id).map(|info| info.fd());
        if let Err(source) = link.update(*program) {
            for (link, before) in &replaced {
                if let Err(error) = link.update(before.as_fd()) {
                    tracing::error!("an interface keeps the new program: {error}");
                }
            }
            return Err(link_error("update")(source));
        }
        if let Some(before) = before {
            replaced.push((link, before?));
        }
    }
    Ok(())
}

/// A link of the running filter, with its mode and what is wanted of it.
pub(super) type Placed = (Link, AttachMode, config::Interface);

/// Makes the pins those of the links now wanted; the rest end.
pub(super) fn pin(
    pins: &Pins,
    places: Vec<Place<'_>>,
    new_links: NewLinks,
    released: Vec<Earlier>,
    notices: &mut Vec<Notice>,
) -> Result<Vec<Placed>, FilterError> {
    // First, as an interface may have taken over the name of another one.
    for earlier in released {
        pins.remove_link(&earlier.name)?;
        notices.push(Notice::Released(earlier.name));
    }
    let mut links = Vec::new();
    let mut unpinned = Vec::new();
    for (place, new) in places.into_iter().zip(new_links) {
        let name = place.interface.name;
        let (link, mode) = match (place.kept, new) {
            (Some((earlier, mode)), _) if earlier.name == name => (earlier.link, mode),
            (Some((earlier, mode)), _) => {
                pins.remove_link(&earlier.name)?;
                unpinned.push((links.len(), name));
                (earlier.link, mode)
            }
            (None, Some(new)) => {
                unpinned.push((links.len(), name));
                new
            }
            // A place has an earlier link or a new one.
            (None, None) => continue,
        };
        links.push((link, mode, place.wanted.clone()));
    }
    for (at, name) in unpinned {
        links[at]
            .0
            .pin(&pins.link(&name))
            .map_err(link_error("pin"))?;
    }
    Ok(links)
}
