//! A file that appears under its name only when it is whole.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{Disk, Sink};

/// A file being written under a temporary name in the same folder. [`Output::finish`] syncs it, gives it
/// its name and syncs the folder; dropped before that, it leaves nothing.
///
/// The temporary name is the final one with `.partial` added: a file left by a crash is recognised, and
/// taken over by the next run for the same name.
pub struct Output<'disk> {
    disk: &'disk dyn Disk,
    sink: Option<Box<dyn Sink>>,
    partial: PathBuf,
    name: PathBuf,
}

impl<'disk> Output<'disk> {
    /// Starts a file that will be called `name`; a file of that name stays as it is until `finish`.
    ///
    /// # Errors
    /// What creating the temporary file reports.
    pub fn create(disk: &'disk dyn Disk, name: &Path) -> io::Result<Output<'disk>> {
        let partial = Output::partial(name);
        match disk.remove(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let sink = disk.create(&partial)?;
        Ok(Output { disk, sink: Some(sink), partial, name: name.to_owned() })
    }

    /// Makes the file whole and durable under its name.
    ///
    /// # Errors
    /// What writing, syncing or renaming reports; the name then still means what it meant before.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some(mut sink) = self.sink.take() {
            let synced = sink.flush().and_then(|()| sink.sync());
            drop(sink);
            let named = synced.and_then(|()| self.disk.rename(&self.partial, &self.name));
            if let Err(error) = named {
                self.discard();
                return Err(error);
            }
        }
        self.disk.sync_folder(self.name.parent().unwrap_or(Path::new("")))
    }

    /// Gives up, but leaves what was written under the temporary name.
    pub fn leave(mut self) {
        if let Some(mut sink) = self.sink.take() {
            // Whoever reads it checks what there is.
            sink.flush().ok();
        }
    }

    /// The temporary name of the file that will be called `name`.
    #[must_use]
    pub fn partial(name: &Path) -> PathBuf {
        let mut partial = OsString::from(name.as_os_str());
        partial.push(".partial");
        PathBuf::from(partial)
    }

    fn discard(&self) {
        // The caller is already told of the failure that led here; a leftover is taken over next time.
        self.disk.remove(&self.partial).ok();
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Some(sink) => sink.write(bytes),
            None => Err(io::Error::other("the file is finished")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.as_mut().map_or(Ok(()), |sink| sink.flush())
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        if self.sink.take().is_some() {
            self.discard();
        }
    }
}
