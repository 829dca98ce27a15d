//! Pausing a queue or a key: nobody is given a row of it until it is resumed, also over a restart. What was
//! given before is acknowledged, extended and returned as usual, and new rows are published.

use std::collections::BTreeSet;
use std::io;

use disk::Output;

use crate::format::checkpoint::PAUSED;
use crate::format::paused_keys;
use crate::queue::Queue;
use crate::queue::commit::fail;
use crate::queue::state::State;
use crate::queue::waiter::Notification;
use crate::row_attributes::AttributeReader;
use crate::{Definition, Error};

impl Queue {
    /// Pauses or resumes it; durable on return. Returns whether that changed anything.
    ///
    /// # Errors
    /// [`Error::Disk`]: it is as before; [`Error::Failed`] and [`Error::Dropped`] when the queue is out of
    /// service, also because nobody knows which of both a crash would leave.
    pub fn set_paused(&self, paused: bool) -> Result<bool, Error> {
        let mut state = self.lock_exclusively();
        let result = state.usable().and_then(|()| self.write_paused(&mut state, paused));
        state.maintaining = false;
        self.release_write_lock(&mut state);
        if matches!(result, Ok(true)) && !paused {
            state.waiters.wake_all(&Notification::Again);
        }
        result
    }

    /// Whether it is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.lock().is_paused
    }

    fn write_paused(&self, state: &mut State, paused: bool) -> Result<bool, Error> {
        if state.is_paused == paused {
            return Ok(false);
        }
        let (disk, path) = (self.folder.disk(), self.folder.path());
        let file = path.join(PAUSED);
        if paused {
            let written = Output::create(disk, &file).and_then(Output::finish).map_err(Error::disk(&file));
            if let Err(error) = written {
                // It may have its name already, and then would pause the queue at the next start.
                if disk.remove(&file).is_err_and(|removed| removed.kind() != io::ErrorKind::NotFound) {
                    fail(state, &error);
                }
                return Err(error);
            }
        } else {
            match disk.remove(&file) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other.map_err(Error::disk(&file))?,
            }
            // Once it is removed a crash may leave it or not.
            let synced = disk.sync_folder(&path).map_err(Error::disk(&path));
            synced.inspect_err(|error| fail(state, error))?;
        }
        state.is_paused = paused;
        Ok(true)
    }

    /// Pauses or resumes the key with these bytes, as rows have it; durable on return. Returns whether that
    /// changed anything.
    ///
    /// # Errors
    /// [`Error::NoKeys`]; [`Error::Disk`]: it is as before; [`Error::Failed`] and [`Error::Dropped`] when the
    /// queue is out of service, also because nobody knows which of both a crash would leave.
    pub fn set_key_paused(&self, key: &[u8], paused: bool) -> Result<bool, Error> {
        let group = self.attribute_reader.as_ref().and_then(|reader| reader.group_of(key));
        let group = group.ok_or(Error::NoKeys)?;
        self.change_paused_keys(|keys| {
            if paused {
                keys.insert(group);
            } else {
                keys.remove(&group);
            }
        })
    }

    /// Resumes all keys that are paused; durable on return. Returns whether there were any.
    ///
    /// # Errors
    /// Those of [`Queue::set_key_paused`].
    pub fn resume_keys(&self) -> Result<bool, Error> {
        self.change_paused_keys(BTreeSet::clear)
    }

    /// Has the same keys be paused as in the queue that this one copies.
    pub(crate) fn adopt_paused_keys(&self, from: &Definition, keys: &BTreeSet<u64>) -> Result<(), Error> {
        if !keys.is_empty() && !AttributeReader::has_same_keys(from, self.definition()) {
            return Err(Error::KeysPaused { keys: keys.len() });
        }
        self.change_paused_keys(|mine| mine.clone_from(keys)).map(drop)
    }

    fn change_paused_keys(&self, change: impl FnOnce(&mut BTreeSet<u64>)) -> Result<bool, Error> {
        let mut state = self.lock_exclusively();
        let mut keys = state.index.paused_keys();
        change(&mut keys);
        let result = state.usable().and_then(|()| self.write_paused_keys(&mut state, &keys));
        state.maintaining = false;
        self.release_write_lock(&mut state);
        let changed = result?;
        if changed {
            // Rows of keys that were resumed may be given.
            self.deliver(&mut state, Vec::new(), self.shared.now_ms())?;
        }
        Ok(changed)
    }

    fn write_paused_keys(&self, state: &mut State, keys: &BTreeSet<u64>) -> Result<bool, Error> {
        let before = state.index.paused_keys();
        if before == *keys {
            return Ok(false);
        }
        let (disk, folder) = (self.folder.disk(), self.folder.path());
        if let Err(error) = paused_keys::write(disk, &folder, keys) {
            // It may have been replaced already, and then a crash may leave it or not.
            if paused_keys::read(disk, &folder).ok() != Some(before) {
                fail(state, &error);
            }
            return Err(error);
        }
        state.index.pause_keys(keys)?;
        Ok(true)
    }
}
