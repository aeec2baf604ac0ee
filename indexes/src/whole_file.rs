//! A file that gets its name only when it is whole.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::{Error, Result};

/// A file being written under a name of its own beside its target; it goes away unless it is published.
#[derive(Debug)]
pub struct WholeFile {
    target: PathBuf,
    file: BufWriter<NamedTempFile>,
}

impl WholeFile {
    /// Starts a file that will replace what is at `path`, if anything; of a link, what it leads to.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when that is no regular file: a device or a pipe must not be replaced by one;
    /// [`Error::Io`] when the folder takes no files.
    pub fn create(path: &Path) -> Result<Self> {
        let target = match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() => fs::canonicalize(path).map_err(Error::io("follow", path))?,
            _ => path.to_path_buf(),
        };
        if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
            return Err(Error::InvalidInput {
                what: format!("output `{}`", path.display()),
                expected: "a regular file, or a name where nothing is yet".into(),
                found: "a folder, a device or a pipe".into(),
            });
        }
        let mut builder = tempfile::Builder::new();
        // The rights of ordinary files, not those of a private one.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(folder(&target)).map_err(|error| {
            // Its message names the temporary file, of which nobody knows.
            Error::io("write", path)(error.raw_os_error().map_or(error, io::Error::from_raw_os_error))
        })?;
        Ok(Self { target, file: BufWriter::with_capacity(1 << 20, file) })
    }

    /// Makes the bytes durable and gives the file its name.
    ///
    /// # Errors
    /// [`Error::Io`]; what was at the target is then still there.
    pub fn publish(self) -> Result<()> {
        let Self { target, file } = self;
        let file = file.into_inner().map_err(|error| Error::io("write", &target)(error.into_error()))?;
        file.as_file().sync_all().map_err(Error::io("sync", &target))?;
        file.persist(&target).map_err(|error| Error::io("write", &target)(error.error))?;
        let folder = folder(&target);
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io("sync", folder))
    }

    /// Where the file will be.
    pub fn target(&self) -> &Path {
        &self.target
    }
}

fn folder(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_regular_file_is_replaced_and_links_are_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let write = |path: &Path| -> Result<()> {
            let mut file = WholeFile::create(path)?;
            file.write_all(b"new").map_err(Error::io("write", path))?;
            file.publish()
        };
        for taken in [Path::new("/dev/null"), folder.path()] {
            assert!(matches!(WholeFile::create(taken), Err(Error::InvalidInput { .. })), "{taken:?}");
        }
        fs::write(at("real"), "old").expect("a file");
        std::os::unix::fs::symlink(at("real"), at("link")).expect("a link");
        write(&at("link")).expect("written");
        assert_eq!(fs::read(at("real")).expect("a file"), b"new");
        assert!(fs::symlink_metadata(at("link")).expect("a link").is_symlink());

        drop(WholeFile::create(&at("given-up")).expect("a file"));
        write(&at("fresh")).expect("written");
        let mut names: Vec<_> =
            fs::read_dir(folder.path()).expect("a folder").flatten().map(|e| e.file_name()).collect();
        names.sort();
        assert_eq!(names, ["fresh", "link", "real"]);
    }
}
