//! Galera clusters of several servers on this machine.

use std::path::Path;

use crate::galera_node::{GaleraNode, let_begin, recover, saved};
use crate::state::{self, State};
use crate::{Error, Installation, Places, Sandbox, Settings, folder, sandbox_folder};

/// Files of a member that another member must not begin with.
const OWN: [&str; 2] = ["galera.cache", "gvwstate.dat"];

/// Starts a cluster of `size` members and returns when each accepts statements. The members of a cluster
/// `NAME` are called `NAME-1`, `NAME-2` and so on. A stopped cluster starts again with its data and its
/// former size.
///
/// `settings` apply to each member; folders and ports are chosen for them.
///
/// # Errors
///
/// Those of [`Sandbox::start`], and [`Error::Missing`] without Galera's library.
pub fn start_cluster(
    installation: &Installation,
    places: &Places,
    settings: &Settings,
    size: usize,
) -> Result<Vec<Sandbox>, Error> {
    GaleraNode::check(installation)?;
    let cluster = settings.name.clone();
    let of = |number: usize| Settings {
        name: cluster.as_ref().map(|name| format!("{name}-{}", number + 1)),
        port: Some(0),
        ..settings.clone()
    };
    if let Some(name) = &cluster {
        let there =
            crate::list(places).into_iter().filter(|listed| listed.cluster.as_ref() == Some(name)).count();
        if there > 0 {
            return again(installation, places, &(0..there).map(of).collect::<Vec<_>>());
        }
    }
    let ports = crate::server::free_ports(size * 2)?;
    let ports: Vec<(u16, u16)> = ports.chunks(2).map(|two| (two[0], two[1])).collect();
    let member = |number: usize| GaleraNode {
        cluster: cluster.clone().unwrap_or_else(|| "sandbox".to_owned()),
        number,
        ports: ports.clone(),
    };
    // The first start turns its data into those of a member. The others begin with a copy of these.
    let mut first = Sandbox::start_as(installation, places, &of(0), Some(member(0)), None)?;
    first.stop()?;
    let original = first.data().to_owned();
    let copy = |to: &Path| {
        folder::copy(&original, to)?;
        OWN.iter().try_for_each(|name| folder::remove_file(&to.join(name)))?;
        let_begin(to, false)
    };
    let mut members = Vec::new();
    for number in 1..size {
        let member = Some(member(number));
        members.push(Sandbox::prepared(installation, places, &of(number), member, Some(&copy))?.0);
    }
    first.restart()?;
    members.iter_mut().try_for_each(Sandbox::restart)?;
    members.insert(0, first);
    Ok(members)
}

/// Starts the stopped members of a cluster, the one with the latest state first.
fn again(installation: &Installation, places: &Places, settings: &[Settings]) -> Result<Vec<Sandbox>, Error> {
    let mut stopped = Vec::new();
    let mut members = Vec::new();
    for settings in settings {
        let (folder, _) = sandbox_folder::choose(places, settings)?;
        let folder = folder.canonicalize().map_err(|_| Error::NoSandbox { folder: folder.clone() })?;
        if State::read(&folder)?.process(&folder).is_some() {
            members.push(Sandbox::open(&folder)?);
            continue;
        }
        let data = state::data(&folder);
        let mut far = saved(&data).map_or((false, -1), |saved| (saved.may_begin, saved.change));
        if far.1 < 0 {
            let position = recover(installation, &folder, &data)?;
            let number = position.and_then(|position| position.rsplit(':').next()?.parse().ok());
            far.1 = number.unwrap_or(-1);
        }
        stopped.push((far, data, settings));
    }
    stopped.sort_by_key(|(far, ..)| std::cmp::Reverse(*far));
    if let (true, Some((_, data, _))) = (members.is_empty(), stopped.first()) {
        let_begin(data, true)?;
    }
    for (_, _, settings) in stopped {
        members.push(Sandbox::start(installation, places, settings)?);
    }
    members.sort_by(|one, other| one.folder().cmp(other.folder()));
    Ok(members)
}
