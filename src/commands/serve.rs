//! `hindsearch serve`: answers over HTTP until it is told to stop.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hindsearch::env::serve::{EnvOptions, EnvServer};
use hindsearch::env::{Preset, Writer};
use hindsearch::indexes::Effort;
use hindsearch::retriever::serve::{
    self, Address, EngineOptions, Limits, Listen, ServeOptions, Service, TlsFiles, Token,
};
use serde_json::json;

use super::Context;
use super::env::read_tasks;
use super::search::open_options;
use crate::failure::Failure;
use crate::output::count;

/// Names the token where no file does.
const TOKEN: &str = "HINDSEARCH_TOKEN";

/// Arguments of `hindsearch serve`.
#[derive(clap::Args)]
#[command(after_help = "\
Clients of Search-R1, verl, SkyRL, GEM, ROLL, slime, rLLM, ReSearch and R1-Searcher can ask as they are; `/docs` lists all
routes, `/` is a page to search with, `/mcp` speaks the Model Context Protocol.

Trainers play episodes at `/env/v1`; clients of OpenEnv are given `http://HOST:PORT/openenv`, those of NeMo Gym and verl-tool the
port alone. Trainers that learn in hindsight ask `/hindsight/v1` what a teacher may be told.

Examples:
  hindsearch serve wiki                                  # http://127.0.0.1:8000
  hindsearch serve wiki --port 8001 --top-k 5
  hindsearch serve wiki --tasks nq_train.parquet --preset search-r1
  hindsearch serve wiki --listen 6002=zerosearch         # a port for clients whose requests do not tell their dialect
  hindsearch serve wiki --host 0.0.0.0 --insecure-no-auth --allow-host node1   # trainers on other nodes, as http://node1:8000
  hindsearch serve wiki --host 0.0.0.0 --token-file token.txt --tls-cert cert.pem --tls-key key.pem")]
pub struct Args {
    /// The index folder
    index: PathBuf,
    /// Address to listen on (setting serve.host, 127.0.0.1)
    #[arg(long, value_name = "IP", value_parser = host)]
    host: Option<IpAddr>,
    /// Port to listen on; 0 takes a free one (serve.port, 8000)
    #[arg(long)]
    port: Option<u16>,
    /// Passages for a request that names no number (serve.top_k, 3)
    #[arg(long, short = 'k', value_parser = clap::value_parser!(u32).range(1..=1000))]
    top_k: Option<u32>,
    /// Files of tasks that trainers may play, or `sample`, the built-in set
    #[arg(long, value_name = "FILE", default_value = "sample")]
    tasks: Vec<PathBuf>,
    /// The recipe of trainers that name none: a name (`hindsearch env presets`), or a file
    #[arg(long, value_name = "NAME", default_value = "hindsearch")]
    preset: String,
    /// An OpenAI-compatible server whose model writes critiques for trainers at `/hindsight/v1/critique`; its token is read from
    /// OPENAI_API_KEY
    #[arg(long, value_name = "URL", requires = "judge_model")]
    judge: Option<String>,
    /// The model's name there
    #[arg(long, value_name = "NAME", requires = "judge")]
    judge_model: Option<String>,
    /// File of what it wrote, so that nothing is asked twice
    #[arg(long, value_name = "FILE", requires = "judge")]
    judge_cache: Option<PathBuf>,
    /// Requests that it is sent at most
    #[arg(long, value_name = "N", requires = "judge")]
    judge_budget: Option<u64>,
    /// A further port that speaks one dialect alone: search_r1, skyrl, gem, rllm, rllm_documents, zerosearch, asearcher,
    /// browsecomp, research, r1_searcher, rerank, pyserini
    #[arg(long, value_name = "PORT=DIALECT", value_parser = listen)]
    listen: Vec<Listen>,
    /// File with tokens, one a line, read again when it changes: whoever asks must name one (or set HINDSEARCH_TOKEN)
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Let everybody ask who can reach the address
    #[arg(long)]
    insecure_no_auth: bool,
    /// Certificate chain, PEM; renewed when the file changes
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// A name by which this server is called, beside localhost
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// An origin whose pages may ask, such as https://example.org
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// Give each document the address of its title's page at Wikipedia, and whole pages by address (`/access`)
    #[arg(long)]
    derive_urls: bool,
    /// How much an approximate index looks at: `calibrated`, `recall=0.95` (of the ten best hits), `exhaustive`, `exact`, or
    /// a number of candidates; for measuring, `lists=16:100` (lists, candidates). Exact indexes always look at all
    #[arg(long, default_value_t)]
    effort: Effort,
    /// Model folder or hub id, where it is not where the index was built with it
    #[arg(long)]
    model: Option<String>,
    /// Do not read the index ahead
    #[arg(long)]
    no_page_in: bool,
    /// No line for each request
    #[arg(long)]
    no_access_log: bool,
}

/// Serves until SIGTERM or Ctrl-C, then lets the requests under way end. With `--json` one line on stdout tells where.
///
/// # Errors
/// A taken port, an address that others can reach without a token, a missing or damaged index, another model, unreadable tasks,
/// an unknown recipe.
pub fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let begun = Instant::now();
    let open = open_options(context, args.model.as_deref(), args.effort)?;
    let index = args.index.clone();
    let options = options(args, context)?;
    serve::serve(&index, open, options, |service, addresses| tell(context, &index, begun, service, addresses))?;
    Ok(())
}

fn options(args: Args, context: &Context) -> Result<ServeOptions, Failure> {
    let settings = &context.config.serve;
    let host = settings.host.parse().map_err(Failure::internal)?;
    let configured = configured(context);
    let mut env = EnvOptions::new(read_tasks(&args.tasks)?, Preset::load(&args.preset)?);
    env.judge = judge(&args)?;
    let env = EnvServer::new(env)?;
    let tls = args.tls_cert.zip(args.tls_key).map(|(certificate, key)| TlsFiles { certificate, key });
    Ok(ServeOptions {
        address: SocketAddr::new(args.host.unwrap_or(host), args.port.unwrap_or(settings.port)),
        listen: args.listen,
        top_k: args.top_k.map_or(configured.top_k, |top_k| top_k as usize),
        tokens: tokens(args.token_file.as_deref())?,
        token_file: args.token_file,
        insecure_no_auth: args.insecure_no_auth,
        hosts: args.allow_host,
        origins: args.allow_origin,
        tls,
        derive_urls: args.derive_urls,
        page_in: !args.no_page_in,
        access_log: !args.no_access_log && !context.quiet,
        more_routes: vec![env.routes()],
        ..configured
    })
}

/// Who writes critiques.
#[cfg(feature = "remote")]
fn judge(args: &Args) -> Result<Option<Arc<dyn Writer>>, Failure> {
    use std::num::NonZero;

    use hindsearch::env::{CachedWriter, Endpoint, ServerWriter, ServerWriterOptions};

    let Some((address, model)) = args.judge.as_deref().zip(args.judge_model.clone()) else { return Ok(None) };
    let parallel = NonZero::new(16).unwrap_or(NonZero::<usize>::MIN);
    let options = ServerWriterOptions { model, parallel, budget: args.judge_budget };
    let writer = ServerWriter::new(Endpoint::from_environment(address)?, options);
    Ok(Some(match &args.judge_cache {
        Some(path) => Arc::new(CachedWriter::open(writer, path)?),
        None => Arc::new(writer),
    }))
}

#[cfg(not(feature = "remote"))]
fn judge(args: &Args) -> Result<Option<Arc<dyn Writer>>, Failure> {
    match &args.judge {
        Some(judge) => Err(Failure::Usage(format!("`--judge {judge}`: this program is built without `remote`"))),
        None => Ok(None),
    }
}

/// What the settings alone say: how searches are done, and within which limits.
pub fn configured(context: &Context) -> ServeOptions {
    let settings = &context.config.serve;
    let ms = Duration::from_millis;
    ServeOptions {
        top_k: settings.top_k,
        cached_queries: settings.cached_queries,
        limits: Limits {
            body: settings.body_bytes,
            bodies: Limits::default().bodies.max(2 * settings.body_bytes),
            in_flight: settings.in_flight,
            connections: settings.connections,
            deadline: ms(settings.deadline),
            head: ms(settings.head_time),
            body_time: ms(settings.body_time),
            idle: ms(settings.idle_time),
            drain: ms(settings.drain_time),
            ..Limits::default()
        },
        engine: EngineOptions {
            search_threads: context.config.search.threads,
            queued_texts: settings.queued_texts,
            queue_wait: ms(settings.queue_wait),
            ..EngineOptions::default()
        },
        ..ServeOptions::default()
    }
}

/// The tokens of the file, or the one of the environment. A token that is asked for and empty is refused, not taken as none.
fn tokens(file: Option<&Path>) -> Result<Vec<Token>, Failure> {
    if let Some(path) = file {
        return Ok(Token::read_file(path)?);
    }
    let Some(text) = std::env::var_os(TOKEN) else { return Ok(Vec::new()) };
    Ok(vec![Token::new(&text.to_string_lossy()).map_err(|error| Failure::Usage(format!("{TOKEN}: {error}")))?])
}

fn host(text: &str) -> Result<IpAddr, String> {
    if text.eq_ignore_ascii_case("localhost") {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    text.parse().map_err(|_| "expected an IP address, such as 127.0.0.1, ::1 or 0.0.0.0".to_owned())
}

fn listen(text: &str) -> Result<Listen, String> {
    let (port, dialect) = text.split_once('=').ok_or("expected PORT=DIALECT, such as 6002=zerosearch")?;
    let port = port.parse().map_err(|_| format!("expected a port, found `{port}`"))?;
    Ok(Listen { port, dialect: dialect.to_owned() })
}

fn tell(context: &Context, index: &Path, begun: Instant, service: &Service, addresses: &[Address]) {
    let serving = service.serving();
    let (generation, rows) = (serving.retriever().generation().number(), serving.retriever().corpus().len());
    let seconds = begun.elapsed().as_secs_f64();
    if context.json {
        let listening = addresses.iter().map(|a| json!({ "address": a.to_string(), "dialect": a.dialect }));
        let line = json!({
            "address": addresses[0].to_string(), "listening": listening.collect::<Vec<_>>(), "pid": std::process::id(),
            "generation": generation, "rows": rows, "seconds": seconds,
        });
        // Nobody may be reading; the server goes on.
        let _ = writeln!(std::io::stdout(), "{line}");
    }
    if context.quiet {
        return;
    }
    let mut err = std::io::stderr();
    let what = format!("{} passages, generation {generation}, ready in {seconds:.1} s", count(rows));
    let _ = writeln!(err, "Serving `{}` ({what})", index.display());
    for address in addresses {
        let dialect = address.dialect.map_or(String::new(), |dialect| format!("  (dialect {dialect})"));
        let _ = writeln!(err, "  {address}{dialect}");
    }
    if let Some(address) = addresses.first() {
        let mut here = address.clone();
        if here.socket.ip().is_unspecified() {
            here.socket.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        let _ = writeln!(
            err,
            "Search at {here}/ , all routes at {here}/docs , for agents {here}/mcp , for trainers {here}/env/v1 . Ctrl-C stops."
        );
    }
}
