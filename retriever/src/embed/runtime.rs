//! Where is ONNX Runtime? Finds its shared library and starts it, once for the whole process.
//!
//! The order: the variable `ORT_DYLIB_PATH`; the project's cache (`HINDSEARCH_CACHE`, or `.cache/hindsearch` from the
//! current folder or the executable's folder upward) at `onnxruntime/libonnxruntime.so*`; an installed `onnxruntime`
//! Python wheel; the system's loader path. A variable that is set but wrong is an error: someone meant that file.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use ort::environment::Environment;
use ort::logging::LogLevel;

use crate::{Error, Result};

/// The name under which the system's loader knows the library.
const LIBRARY: &str = if cfg!(windows) {
    "onnxruntime.dll"
} else if cfg!(target_os = "macos") {
    "libonnxruntime.dylib"
} else {
    "libonnxruntime.so"
};

/// The running ONNX Runtime.
#[derive(Debug)]
pub struct Runtime {
    pub(super) environment: Environment,
    library: PathBuf,
}

impl Runtime {
    /// The library that was loaded.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// The library's description of its own build.
    pub fn build_info(&self) -> &'static str {
        ort::info()
    }
}

/// The places where the library may be, in the order of [`RuntimeSearch::load`].
#[derive(Debug, Clone, Default)]
pub struct RuntimeSearch {
    /// This file and no other.
    pub explicit: Option<PathBuf>,
    /// Cache folders that may hold `onnxruntime/libonnxruntime.so*`.
    pub caches: Vec<PathBuf>,
    /// Python folders that may hold `onnxruntime/capi/libonnxruntime.so*`.
    pub site_packages: Vec<PathBuf>,
    /// Ask the system's loader in the end.
    pub system: bool,
}

impl RuntimeSearch {
    /// The places that this process's environment names.
    pub fn from_env() -> Self {
        Self::from_lookup(&|name| env::var_os(name).filter(|value| !value.is_empty()))
    }

    /// As [`RuntimeSearch::from_env`], with the environment variables given by `lookup`.
    pub fn from_lookup(lookup: &dyn Fn(&str) -> Option<OsString>) -> Self {
        Self {
            explicit: lookup("ORT_DYLIB_PATH").map(PathBuf::from),
            caches: cache_folders(lookup),
            site_packages: site_packages(lookup),
            system: true,
        }
    }

    /// Loads the library and starts it. Programs should have `ORT_DISABLE_TELEMETRY=1` in their environment: the library
    /// looks there when it is loaded, and otherwise keeps a device id and usage data in the user's home, whatever it is
    /// told afterwards. The command line sets it for itself.
    ///
    /// The first success holds for the life of the process, whatever is asked later.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with every place tried and why it failed.
    pub fn load(&self) -> Result<&'static Runtime> {
        static RUNTIME: OnceLock<Runtime> = OnceLock::new();
        static LOADING: Mutex<()> = Mutex::new(());
        let _one_at_a_time = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = RUNTIME.get() {
            return Ok(runtime);
        }
        let (candidates, mut failures) = self.candidates();
        for library in candidates {
            match start(&library) {
                Ok(environment) => return Ok(RUNTIME.get_or_init(|| Runtime { environment, library })),
                Err(why) => failures.push(format!("`{}`: {why}", library.display())),
            }
        }
        Err(self.unavailable(&failures))
    }

    /// The files worth loading, and the places that hold none.
    fn candidates(&self) -> (Vec<PathBuf>, Vec<String>) {
        if let Some(path) = &self.explicit {
            // A relative path would be looked up beside the executable first.
            return (vec![std::path::absolute(path).unwrap_or_else(|_| path.clone())], Vec::new());
        }
        let mut files = Vec::new();
        let mut failures = Vec::new();
        let caches = self.caches.iter().map(|cache| cache.join("onnxruntime"));
        let wheels = self.site_packages.iter().map(|folder| folder.join("onnxruntime/capi"));
        for folder in caches.chain(wheels) {
            match library_in(&folder) {
                Some(file) => files.push(file),
                None => failures.push(format!("`{}`: no {LIBRARY} there", folder.display())),
            }
        }
        if self.caches.is_empty() {
            failures.push("`.cache/hindsearch` from the current folder upward: no such folder".into());
        }
        if self.system {
            files.push(PathBuf::from(LIBRARY));
        }
        (files, failures)
    }

    fn unavailable(&self, failures: &[String]) -> Error {
        let remedy = if self.explicit.is_some() {
            "correct the variable `ORT_DYLIB_PATH`, or unset it to search the usual places"
        } else {
            "run `make setup`, or `pip install onnxruntime`, or set `ORT_DYLIB_PATH` to the library file"
        };
        Error::Unavailable {
            what: "ONNX Runtime".into(),
            found: format!("its shared library cannot be loaded; tried {}", failures.join(", ")),
            remedy: remedy.into(),
        }
    }
}

/// The project's cache folders: `HINDSEARCH_CACHE` alone when set, otherwise each `.cache/hindsearch` that exists in
/// the current folder, the executable's folder, or above them.
pub fn cache_folders(lookup: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    if let Some(folder) = lookup("HINDSEARCH_CACHE") {
        return vec![folder.into()];
    }
    let starts = [env::current_dir().ok(), env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_path_buf))];
    let mut folders = Vec::new();
    for folder in starts.iter().flatten().flat_map(|start| start.ancestors()) {
        let cache = folder.join(".cache/hindsearch");
        if cache.is_dir() && !folders.contains(&cache) {
            folders.push(cache);
        }
    }
    folders
}

/// Python's package folders, without running Python.
fn site_packages(lookup: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut prefixes: Vec<PathBuf> =
        ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(lookup).map(Into::into).collect();
    prefixes.extend(env::current_dir().ok().map(|folder| folder.join(".venv")));
    prefixes.extend(lookup("HOME").map(|home| Path::new(&home).join(".local")));
    prefixes.extend(["/usr/local", "/usr"].map(PathBuf::from));
    let mut folders = Vec::new();
    for prefix in prefixes {
        let pythons = sorted_entries(&prefix.join("lib"), |name| name.starts_with("python3"));
        for python in pythons {
            folders.extend(
                ["site-packages", "dist-packages"].map(|name| python.join(name)).into_iter().filter(|f| f.is_dir()),
            );
        }
    }
    folders
}

/// The library file in `folder`: the plain name, or the highest version behind it.
fn library_in(folder: &Path) -> Option<PathBuf> {
    let mut files = sorted_entries(folder, |name| name == LIBRARY || name.starts_with("libonnxruntime."));
    files.sort_by_cached_key(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let version: Vec<u64> = name.split('.').filter_map(|part| part.parse().ok()).collect();
        (name == LIBRARY, version)
    });
    files.pop()
}

fn sorted_entries(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| wanted(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

fn start(library: &Path) -> Result<Environment, String> {
    let builder = ort::init_from(library).map_err(|e| match e {
        // The other variants name the path again.
        ort::LoadDynamicError::Dlopen { error, .. } => match std::error::Error::source(&error) {
            Some(reason) => reason.to_string(),
            None => error.to_string(),
        },
        ort::LoadDynamicError::BadVersion { version_str, .. } => {
            format!("version {version_str} is too old, 1.{} or newer is needed", ort::MINOR_VERSION)
        }
        ort::LoadDynamicError::MissingApi { .. } => "not an ONNX Runtime library".into(),
        other => other.to_string(),
    })?;
    let environment = builder.with_name("hindsearch").with_telemetry(false).build().map_err(|e| e.to_string())?;
    environment.set_log_level(LogLevel::Warning);
    Ok(environment)
}
