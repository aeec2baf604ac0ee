//! A client for WebSockets (RFC 6455) that does what it is told: texts in one frame each.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

pub struct Socket(TcpStream);

impl Socket {
    /// Opens a socket at this path.
    pub fn open(address: SocketAddr, path: &str) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            answer.push(byte[0]);
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        if answer.starts_with("HTTP/1.1 101") { Ok(Self(stream)) } else { Err(io::Error::other(answer)) }
    }

    /// Sends a text. The mask is all zeros, which RFC 6455 allows and which leaves the text as it is.
    pub fn send(&mut self, text: &str) -> io::Result<()> {
        let mut frame = vec![0x81];
        match text.len() {
            length @ 0..126 => frame.push(0x80 | length as u8),
            length @ 126..0x1_0000 => {
                frame.push(0x80 | 126);
                frame.extend((length as u16).to_be_bytes());
            }
            length => {
                frame.push(0x80 | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        self.0.write_all(&frame)
    }

    /// The next text; nothing where the server closed the socket.
    pub fn read(&mut self) -> io::Result<Option<String>> {
        let mut head = [0; 2];
        match self.0.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            outcome => outcome?,
        }
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                self.0.read_exact(&mut length)?;
                u64::from(u16::from_be_bytes(length))
            }
            127 => {
                let mut length = [0; 8];
                self.0.read_exact(&mut length)?;
                u64::from_be_bytes(length)
            }
            length => u64::from(length),
        };
        let mut body = vec![0; length as usize];
        self.0.read_exact(&mut body)?;
        match head[0] {
            0x81 => String::from_utf8(body).map(Some).map_err(io::Error::other),
            0x88 => Ok(None),
            other => Err(io::Error::other(format!("a frame of kind {other:#x}"))),
        }
    }

    /// Sends a message and takes the answer.
    pub fn ask(&mut self, message: &Value) -> Value {
        self.send(&message.to_string()).expect("an open socket");
        let answer = self.read().expect("an answer").expect("an open socket");
        serde_json::from_str(&answer).expect("JSON")
    }
}
