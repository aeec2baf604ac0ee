//! Where is a compiled kernel? NVRTC compiles a source once in a process for each form, and a device loads it once.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use candle_core::cuda::CudaDevice;
use candle_core::cuda::cudarc::driver::CudaFunction;
use candle_core::cuda::cudarc::nvrtc::{CompileError, CompileOptions, Ptx, compile_ptx_with_opts};
use candle_core::cuda_backend::DeviceId;
use candle_core::{Error, Result};

use super::signature::{Signature, signature};
use super::sources::{COMMON, Form, Source};

/// A kernel on a device.
pub(super) struct Kernel {
    pub function: CudaFunction,
    pub signature: Signature,
}

type Compiled = HashMap<(Source, Form), std::result::Result<Ptx, String>>;
type Loaded = HashMap<(DeviceId, Source, Form, &'static str), Arc<Kernel>>;

static COMPILED: LazyLock<Mutex<Compiled>> = LazyLock::new(Mutex::default);
static LOADED: LazyLock<Mutex<Loaded>> = LazyLock::new(Mutex::default);

/// Whether a source can be compiled here. That it cannot is said once, and operations go on without it, slower.
pub(super) fn compiles(source: &Source, form: Form) -> bool {
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let found = compiled.entry((*source, form)).or_insert_with(|| {
        compile(source, form).inspect_err(|error| {
            eprintln!(
                "warning: {} does not compile, candle's operations stand in for its kernels: {error}",
                source.name
            );
        })
    });
    found.is_ok()
}

fn compile(source: &Source, form: Form) -> std::result::Result<Ptx, String> {
    // Lines of messages are those of the source.
    let text = format!("{COMMON}\n#line 1 \"{}\"\n{}", source.name, source.text);
    let options =
        CompileOptions { options: form.options(source), name: Some(source.name.into()), ..Default::default() };
    compile_ptx_with_opts(text, options).map_err(|error| match error {
        CompileError::CompileError { log, .. } => log.to_string_lossy().into_owned(),
        other => other.to_string(),
    })
}

/// The kernel `name` of a source, on a device.
///
/// # Errors
/// Where it cannot be compiled or loaded, or is not in the source.
pub(super) fn kernel(device: &CudaDevice, source: &Source, form: Form, name: &'static str) -> Result<Arc<Kernel>> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (device.id(), *source, form, name);
    if let Some(kernel) = loaded.get(&key) {
        return Ok(kernel.clone());
    }
    if !compiles(source, form) {
        candle_core::bail!("{} cannot be compiled", source.name)
    }
    let compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Ok(code)) = compiled.get(&(*source, form)) else {
        candle_core::bail!("{} cannot be compiled", source.name)
    };
    let module = device.cuda_stream().context().load_module(code.clone()).map_err(Error::wrap)?;
    let function = module.load_function(name).map_err(Error::wrap)?;
    let signature = signature(source.text, name, form.element, form.head.map_or(0, |head| head.tile))?;
    let kernel = Arc::new(Kernel { function, signature });
    loaded.insert(key, kernel.clone());
    Ok(kernel)
}
