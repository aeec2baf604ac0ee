//! Trajectories on disk: one JSON object a line, only ever appended to, so that a run that is killed loses the line it was
//! writing and nothing else. Files that end in `.zst` are compressed, a frame a line.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use fs4::TryLockError;

use crate::trajectory::{TRAJECTORY_VERSION, Trajectory};
use crate::{Error, Result};

/// Bytes that a trajectory may have.
const LONGEST_LINE: u64 = 256 << 20;
const COMPRESSION: i32 = 3;

/// A file of trajectories that is open for more.
pub struct TrajectoryLog {
    file: File,
    path: PathBuf,
    compressed: bool,
    done: HashMap<(String, u32), bool>,
}

impl TrajectoryLog {
    /// Opens a file to go on with, or a new one. What a killed run left of a line is removed.
    ///
    /// # Errors
    /// [`Error::Unavailable`] while another process writes to it; [`Error::Line`] for a file that holds something else, which is
    /// left as it is; [`Error::Io`].
    pub fn open(path: &Path) -> Result<Self> {
        let open = OpenOptions::new().read(true).append(true).create(true).open(path);
        let mut file = open.map_err(Error::io("open", path))?;
        match fs4::FileExt::try_lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Unavailable {
                    what: format!("`{}`", path.display()),
                    found: "another run writes to it".into(),
                    remedy: "wait for it, or name another file".into(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", path)(error)),
        }
        let compressed = is_compressed(path);
        let mut done = HashMap::new();
        let mut lines = Lines::new(&file, path, compressed);
        while let Some(trajectory) = lines.next_trajectory()? {
            done.insert((trajectory.task, trajectory.sample), trajectory.error.is_none());
        }
        let whole = lines.whole;
        file.set_len(whole).and_then(|()| file.seek(SeekFrom::End(0))).map_err(Error::io("write to", path))?;
        Ok(Self { file, path: path.to_path_buf(), compressed, done })
    }

    /// Whether this play of the task is in the file, played to its end.
    pub fn holds(&self, task: &str, sample: u32) -> bool {
        self.done.get(&(task.to_owned(), sample)).copied().unwrap_or(false)
    }

    /// Adds a trajectory. One of the same play that is there already counts no more.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn append(&mut self, trajectory: &Trajectory) -> Result<()> {
        let mut line =
            serde_json::to_vec(trajectory).map_err(|error| Error::io("write to", &self.path)(error.into()))?;
        line.push(b'\n');
        if self.compressed {
            line = zstd::encode_all(&line[..], COMPRESSION).map_err(Error::io("compress for", &self.path))?;
        }
        // A single write, so that a kill leaves at most one line that is not whole.
        self.file.write_all(&line).map_err(Error::io("write to", &self.path))?;
        self.done.insert((trajectory.task.clone(), trajectory.sample), trajectory.error.is_none());
        Ok(())
    }

    /// Waits until everything is on the disk.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(Error::io("sync", &self.path))
    }
}

/// All trajectories of a file, in its order; of a play that was played again the last one. A line that a killed run did not
/// finish is passed over.
///
/// # Errors
/// [`Error::Line`] names the line that is no trajectory, or one of another version; [`Error::Io`].
pub fn read_trajectories(path: &Path) -> Result<Vec<Trajectory>> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let mut lines = Lines::new(&file, path, is_compressed(path));
    let mut all: Vec<Option<Trajectory>> = Vec::new();
    let mut places = HashMap::new();
    while let Some(trajectory) = lines.next_trajectory()? {
        let key = (trajectory.task.clone(), trajectory.sample);
        if let Some(before) = places.insert(key, all.len()) {
            all[before] = None;
        }
        all.push(Some(trajectory));
    }
    Ok(all.into_iter().flatten().collect())
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zst")
}

/// The lines of a file, and how many of its bytes hold whole ones.
struct Lines<'a> {
    reader: BufReader<&'a File>,
    path: &'a Path,
    compressed: bool,
    number: u64,
    whole: u64,
}

impl<'a> Lines<'a> {
    fn new(file: &'a File, path: &'a Path, compressed: bool) -> Self {
        Self { reader: BufReader::new(file), path, compressed, number: 0, whole: 0 }
    }

    fn next_trajectory(&mut self) -> Result<Option<Trajectory>> {
        let Some(line) = self.next_line()? else { return Ok(None) };
        self.number += 1;
        let refuse = |expected: &str, found: String| Error::Line {
            path: self.path.to_path_buf(),
            line: self.number,
            expected: expected.into(),
            found,
        };
        let version = serde_json::from_slice::<Versioned>(&line);
        let version = version.map_err(|error| refuse("a trajectory", error.to_string()))?.version;
        if version != TRAJECTORY_VERSION {
            return Err(refuse(&format!("a trajectory of version {TRAJECTORY_VERSION}"), format!("version {version}")));
        }
        serde_json::from_slice(&line).map(Some).map_err(|error| refuse("a trajectory", error.to_string()))
    }

    /// The next whole line.
    fn next_line(&mut self) -> Result<Option<Vec<u8>>> {
        let failed = Error::io("read", self.path);
        let mut line = Vec::new();
        if self.compressed {
            if self.reader.fill_buf().map_err(&failed)?.is_empty() {
                return Ok(None);
            }
            let mut frame = zstd::Decoder::with_buffer(&mut self.reader).map_err(&failed)?.single_frame();
            if let Err(error) = frame.by_ref().take(LONGEST_LINE).read_to_end(&mut line) {
                let cut_off = error.kind() == std::io::ErrorKind::UnexpectedEof;
                return if cut_off { Ok(None) } else { Err(failed(error)) };
            }
            drop(frame);
            self.whole = self.reader.stream_position().map_err(&failed)?;
        } else {
            let read = self.reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(&failed)?;
            if line.last() != Some(&b'\n') {
                return Ok(None);
            }
            self.whole += read as u64;
        }
        Ok(Some(line))
    }
}

#[derive(serde::Deserialize)]
struct Versioned {
    version: u32,
}
