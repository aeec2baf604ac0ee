//! A writer that says what it is told to, and keeps what it was asked.

use std::sync::Mutex;

use hindsearch_env::{Error, Request, Result, Writer};

pub struct Says<F> {
    pub asked: Mutex<Vec<Request>>,
    say: F,
}

impl<F: Fn(usize, &Request) -> Option<String> + Send + Sync> Says<F> {
    /// `say` is given the number of the request, from 0; nothing is a fault.
    pub fn new(say: F) -> Self {
        Self { asked: Mutex::default(), say }
    }

    pub fn asked(&self) -> Vec<Request> {
        self.asked.lock().expect("requests").clone()
    }
}

impl<F: Fn(usize, &Request) -> Option<String> + Send + Sync> Writer for Says<F> {
    fn name(&self) -> &str {
        "says"
    }

    fn write(&self, requests: &[Request]) -> Vec<Result<String>> {
        let mut asked = self.asked.lock().expect("requests");
        let fault =
            || Error::Unavailable { what: "the writer".into(), found: "no words".into(), remedy: "wait".into() };
        let say = |request: &Request| {
            asked.push(request.clone());
            (self.say)(asked.len() - 1, request).ok_or_else(fault)
        };
        requests.iter().map(say).collect()
    }
}
