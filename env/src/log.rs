//! Records on disk: one JSON object a line, only ever appended to, so that a run that is killed loses the line it was writing and
//! nothing else. Files that end in `.zst` are compressed, a frame a line.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use fs4::TryLockError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::trajectory::{TRAJECTORY_VERSION, Trajectory};
use crate::{Error, Result};

/// Bytes that a line may have.
const LONGEST_LINE: u64 = 256 << 20;
const COMPRESSION: i32 = 3;

/// A file of records that is open for more, by one process at a time.
pub(crate) struct JsonLog {
    file: File,
    path: PathBuf,
}

impl JsonLog {
    /// Opens a file to go on with, or a new one. It must be [read](Self::read) before anything is added.
    ///
    /// # Errors
    /// [`Error::Locked`] while another process writes to it; [`Error::Io`].
    pub fn open(path: &Path) -> Result<Self> {
        let open = OpenOptions::new().read(true).append(true).create(true).open(path);
        let file = open.map_err(Error::io("open", path))?;
        match fs4::FileExt::try_lock(&file) {
            Ok(()) => Ok(Self { file, path: path.to_path_buf() }),
            Err(TryLockError::WouldBlock) => Err(Error::Locked { path: path.to_path_buf() }),
            Err(TryLockError::Error(error)) => Err(Error::io("lock", path)(error)),
        }
    }

    /// Gives all records that are there, and removes what a killed run left of a line.
    ///
    /// # Errors
    /// [`Error::Line`] for a file that holds something else, which is left as it is; [`Error::Io`].
    pub fn read<T: DeserializeOwned>(&mut self, mut take: impl FnMut(T)) -> Result<()> {
        let mut lines = Lines::new(&self.file, &self.path);
        while let Some(line) = lines.next_line()? {
            take(lines.parse(&line)?);
        }
        let whole = lines.whole;
        let shortened = self.file.set_len(whole).and_then(|()| self.file.seek(SeekFrom::End(0)));
        shortened.map(drop).map_err(Error::io("write to", &self.path))
    }

    /// Adds a record.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn append(&mut self, record: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(record).map_err(|error| Error::io("write to", &self.path)(error.into()))?;
        line.push(b'\n');
        if is_compressed(&self.path) {
            line = compress(&line).map_err(Error::io("compress for", &self.path))?;
        }
        // A single write, so that a kill leaves at most one line that is not whole.
        self.file.write_all(&line).map_err(Error::io("write to", &self.path))
    }
}

/// A file of trajectories that is open for more.
pub struct TrajectoryLog {
    log: JsonLog,
    done: HashMap<(String, u32), bool>,
}

impl TrajectoryLog {
    /// Opens a file to go on with, or a new one. What a killed run left of a line is removed.
    ///
    /// # Errors
    /// [`Error::Locked`] while another process writes to it; [`Error::Line`] for a file that holds something else, which is
    /// left as it is; [`Error::Io`].
    pub fn open(path: &Path) -> Result<Self> {
        let mut log = JsonLog::open(path)?;
        let mut done = HashMap::new();
        log.read(|Checked(one): Checked| {
            done.insert((one.task, one.sample), one.error.is_none());
        })?;
        Ok(Self { log, done })
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
        self.log.append(trajectory)?;
        self.done.insert((trajectory.task.clone(), trajectory.sample), trajectory.error.is_none());
        Ok(())
    }

    /// Waits until everything is on the disk.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sync(&self) -> Result<()> {
        self.log.file.sync_data().map_err(Error::io("sync", &self.log.path))
    }
}

/// Where a training run keeps the trajectories of each step.
pub const STEPS: &str = "trajectories";

/// Names of a run's file of trajectories in its folder: as it is, or compressed.
pub const TRAJECTORIES: [&str; 2] = ["trajectories.jsonl", "trajectories.jsonl.zst"];

/// The file of trajectories of a run's folder, of a training run that of its last step; a file is itself.
///
/// # Errors
/// [`Error::Io`] where nothing is; [`Error::NotFound`] in a folder of something else; [`Error::InvalidInput`] where two files might be meant.
pub fn trajectories_file(run: &Path) -> Result<PathBuf> {
    let metadata = run.metadata().map_err(Error::io("open", run))?;
    if !metadata.is_dir() {
        return Ok(run.to_path_buf());
    }
    match &TRAJECTORIES.map(|name| run.join(name)).into_iter().filter(|path| path.is_file()).collect::<Vec<_>>()[..] {
        [only] => Ok(only.clone()),
        [] => last_step(run).ok_or_else(|| Error::NotFound {
            what: format!(
                "`{}`, `{}` or a step's file under `{STEPS}` in `{}`",
                TRAJECTORIES[0],
                TRAJECTORIES[1],
                run.display()
            ),
            remedy: "name the file of trajectories itself".into(),
        }),
        _ => Err(Error::invalid(
            format!("`{}`", run.display()),
            "one file of trajectories",
            format!("`{}` and `{}`; name one of them", TRAJECTORIES[0], TRAJECTORIES[1]),
        )),
    }
}

/// The file of a training run's last step that has trajectories; nothing where the folder has none.
fn last_step(run: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(run.join(STEPS)).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    // A step that was stopped has left an empty one.
    let has_some = |path: &PathBuf| path.metadata().is_ok_and(|metadata| metadata.len() > 0);
    files.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).filter(has_some).max()
}

/// All trajectories of a file, in its order; of a play that was played again the last one. A line that a killed run did not
/// finish is passed over.
///
/// # Errors
/// [`Error::Line`] names the line that is no trajectory, or one of another version; [`Error::Io`].
pub fn read_trajectories(path: &Path) -> Result<Vec<Trajectory>> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let mut lines = Lines::new(&file, path);
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

/// All records of a file, in its order. A line that a killed run did not finish is passed over.
///
/// # Errors
/// [`Error::Line`] names the line that holds something else; [`Error::Io`].
pub(crate) fn read_records<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let mut lines = Lines::new(&file, path);
    let mut all = Vec::new();
    while let Some(line) = lines.next_line()? {
        all.push(lines.parse(&line)?);
    }
    Ok(all)
}

/// A trajectory of the version that is known; of another one its version is told before anything else that is wrong.
struct Checked(Trajectory);

impl<'de> serde::Deserialize<'de> for Checked {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        use serde::de::Error as _;
        let value = serde_json::Value::deserialize(deserializer)?;
        match value["version"].as_u64() {
            Some(version) if version == u64::from(TRAJECTORY_VERSION) => {}
            Some(version) => {
                let known = format!("a trajectory of version {version}, where {TRAJECTORY_VERSION} is known");
                return Err(D::Error::custom(known));
            }
            None => return Err(D::Error::custom("no `version`")),
        }
        serde_json::from_value(value).map(Self).map_err(D::Error::custom)
    }
}

/// A frame with a checksum.
fn compress(line: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), COMPRESSION)?;
    encoder.include_checksum(true)?;
    encoder.write_all(line)?;
    encoder.finish()
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zst")
}

/// The lines of a file, and how many of its bytes hold whole ones.
pub(crate) struct Lines<'a> {
    reader: BufReader<&'a File>,
    path: &'a Path,
    number: u64,
    pub(crate) whole: u64,
}

impl<'a> Lines<'a> {
    fn new(file: &'a File, path: &'a Path) -> Self {
        Self { reader: BufReader::new(file), path, number: 0, whole: 0 }
    }

    /// Those that begin at byte `whole`, behind `number` others.
    #[cfg(feature = "viewer")]
    pub(crate) fn behind(file: &'a File, path: &'a Path, number: u64, whole: u64) -> Result<Self> {
        let mut reader = BufReader::new(file);
        reader.seek(SeekFrom::Start(whole)).map_err(Error::io("read", path))?;
        Ok(Self { reader, path, number, whole })
    }

    pub(crate) fn next_trajectory(&mut self) -> Result<Option<Trajectory>> {
        let Some(line) = self.next_line()? else { return Ok(None) };
        self.parse(&line).map(|Checked(trajectory)| Some(trajectory))
    }

    fn parse<T: DeserializeOwned>(&self, line: &[u8]) -> Result<T> {
        serde_json::from_slice(line).map_err(|error| Error::Line {
            path: self.path.to_path_buf(),
            line: self.number,
            expected: "a record as this program writes it".into(),
            found: error.to_string(),
        })
    }

    /// The next whole line.
    fn next_line(&mut self) -> Result<Option<Vec<u8>>> {
        let failed = Error::io("read", self.path);
        let mut line = Vec::new();
        if is_compressed(self.path) {
            if self.reader.fill_buf().map_err(&failed)?.is_empty() {
                return Ok(None);
            }
            let mut frame = zstd::Decoder::with_buffer(&mut self.reader).map_err(&failed)?.single_frame();
            if let Err(error) = frame.by_ref().take(LONGEST_LINE).read_to_end(&mut line) {
                let cut_off = error.kind() == std::io::ErrorKind::UnexpectedEof;
                let damaged = || Error::Line {
                    path: self.path.to_path_buf(),
                    line: self.number + 1,
                    expected: "a frame of zstd".into(),
                    found: format!("damage ({error}); restore the file, or play again into another one"),
                };
                return if cut_off { Ok(None) } else { Err(damaged()) };
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
        self.number += 1;
        Ok(Some(line))
    }
}
