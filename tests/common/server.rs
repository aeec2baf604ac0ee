//! `hindsearch serve` as a process.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use serde_json::Value;

/// A server that serves; it ends with the test.
pub struct Served {
    pub address: SocketAddr,
    /// The ports that speak one dialect alone.
    pub dialects: BTreeMap<String, SocketAddr>,
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
}

impl Served {
    /// Starts the program, which must have `--json` among its arguments, and waits until it serves.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut stderr = child.stderr.take().expect("a pipe");
        let read = |mut pipe: Box<dyn Read + Send>| {
            std::thread::spawn(move || {
                let mut text = Vec::new();
                let _ = pipe.read_to_end(&mut text);
                String::from_utf8_lossy(&text).into_owned()
            })
        };
        let mut line = String::new();
        stdout.read_line(&mut line).expect("a line");
        let Ok(told) = serde_json::from_str::<Value>(&line) else {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            panic!("no address: {line:?} {text}");
        };
        let socket = |address: &Value| -> SocketAddr {
            let address = address.as_str().expect("an address");
            address.split_once("://").expect("a scheme").1.parse().expect("a socket")
        };
        let listening = told["listening"].as_array().expect("a list").iter();
        let dialects = listening.filter_map(|l| Some((l["dialect"].as_str()?.to_owned(), socket(&l["address"]))));
        Self {
            address: socket(&told["address"]),
            dialects: dialects.collect(),
            child,
            stdout: Some(read(Box::new(stdout))),
            stderr: Some(read(Box::new(stderr))),
        }
    }

    /// Stops it and returns what it printed: standard output after the first line, and standard error.
    pub fn stop(mut self) -> (String, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
        assert_eq!(self.child.wait().expect("an end").code(), Some(0));
        let text = |pipe: Option<JoinHandle<String>>| pipe.expect("a pipe").join().expect("text");
        (text(self.stdout.take()), text(self.stderr.take()))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
