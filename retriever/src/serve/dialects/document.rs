//! Passages as documents on the wire. Keys that a client does not know do it no harm.

use serde_json::{Map, Value, json};

use crate::Ranked;

/// How passages become documents.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::serve) struct Documents {
    /// With the address of the page that the title names.
    pub urls: bool,
}

impl Documents {
    /// `id`, `contents`, `text`, and where there is one `title` and `url`.
    pub fn of(self, hit: &Ranked) -> Value {
        let passage = &hit.passage;
        let mut document = Map::new();
        document.insert("id".into(), passage.id.as_str().into());
        document.insert("contents".into(), passage.contents().into());
        document.insert("text".into(), passage.text.as_str().into());
        if passage.title.is_some() {
            document.insert("title".into(), passage.display_title().into());
        }
        if let Some(url) = self.url_of(hit) {
            document.insert("url".into(), url.into());
        }
        Value::Object(document)
    }

    /// The address of the page that the title names, or a name of our own for a passage without a title; where documents
    /// have addresses.
    pub fn url_of(self, hit: &Ranked) -> Option<String> {
        self.urls.then(|| match hit.passage.display_title() {
            "" => format!("{URN}{}", hit.passage.id),
            title => url(title),
        })
    }

    /// `document` and `score`.
    pub fn scored(self, hit: &Ranked) -> Value {
        json!({ "document": self.of(hit), "score": hit.score })
    }

    /// Rankings, with or without scores.
    pub fn rankings(self, rankings: &[Vec<Ranked>], scores: bool) -> Value {
        rankings.iter().map(|hits| self.ranking(hits, scores)).collect()
    }

    /// A ranking, with or without scores.
    pub fn ranking(self, hits: &[Ranked], scores: bool) -> Value {
        hits.iter().map(|hit| if scores { self.scored(hit) } else { self.of(hit) }).collect()
    }
}

/// Before the id of a passage that no page on the web stands for.
pub(in crate::serve) const URN: &str = "urn:hindsearch:passage:";

const WIKI: &str = "https://en.wikipedia.org/wiki/";

/// The address of the page with this title, at the English Wikipedia.
pub(in crate::serve) fn url(title: &str) -> String {
    let mut url = WIKI.to_owned();
    for byte in title.replace(' ', "_").bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => url.push(byte.into()),
            _ if b"-_.~!*'();:@,/".contains(&byte) => url.push(byte.into()),
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

/// The title that an address names, if it is one of a wiki. `index.php/X` and `index.php?title=X` are `X`.
pub(in crate::serve) fn title_of(url: &str) -> Option<String> {
    let url = url.split_once('#').map_or(url, |(url, _)| url);
    let name = ["/index.php?title=", "/index.php/", "/wiki/"].iter().find_map(|part| Some(url.split_once(part)?.1))?;
    let name = name.split_once(['?', '&']).map_or(name, |(name, _)| name);
    let title = super::super::incoming::decode(&name.replace('+', "%2B")).replace('_', " ");
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::{title_of, url};

    #[test]
    fn addresses_name_their_titles() {
        for title in ["Radium", "Pavia Cathedral", "AC/DC", "C++", "Žižek & Marx?", "100%", "Ж"] {
            assert_eq!(title_of(&url(title)).as_deref(), Some(title), "{}", url(title));
        }
        for address in [
            "http://host/index.php/Marie_Curie",
            "http://host/index.php?title=Marie_Curie&oldid=3",
            "/wiki/Marie%20Curie#Life",
        ] {
            assert_eq!(title_of(address).as_deref(), Some("Marie Curie"), "{address}");
        }
        for address in ["", "http://example.org", "https://en.wikipedia.org/wiki/"] {
            assert_eq!(title_of(address), None);
        }
    }
}
