//! A model server that answers as it is told, and keeps what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hindsearch_env::Endpoint;
use serde_json::Value;

/// A request: path, token, body.
pub type Asked = (String, Option<String>, Value);

pub struct ModelServer {
    pub address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl ModelServer {
    /// `answer` is given the number of the request, from 0, and its body; it gives a status and a body.
    pub fn start(answer: impl Fn(usize, &Value) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let (asked, answer) = (Arc::<Mutex<Vec<Asked>>>::default(), Arc::new(answer));
        let server = Self { address, asked: Arc::clone(&asked) };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (asked, answer) = (Arc::clone(&asked), Arc::clone(&answer));
                std::thread::spawn(move || serve(&stream, &asked, &*answer));
            }
        });
        server
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("requests").clone()
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint::new(&self.address, Some("s3cret".into()), Duration::from_secs(5)).expect("an endpoint")
    }
}

fn serve(mut stream: &TcpStream, asked: &Mutex<Vec<Asked>>, answer: &dyn Fn(usize, &Value) -> (u16, String)) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut path, mut token, mut length, mut line) = (String::new(), None, 0, String::new());
        loop {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let text = line.trim_end();
            if text.is_empty() {
                break;
            }
            if path.is_empty() {
                path = text.split(' ').nth(1).unwrap_or_default().to_owned();
            } else if let Some((name, value)) = text.split_once(": ") {
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => length = value.parse().expect("a number"),
                    "authorization" => token = Some(value.to_owned()),
                    _ => {}
                }
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("a body");
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        let number = {
            let mut asked = asked.lock().expect("requests");
            asked.push((path, token, body.clone()));
            asked.len() - 1
        };
        let (status, body) = answer(number, &body);
        let head =
            format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        if stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).is_err() {
            return;
        }
    }
}
