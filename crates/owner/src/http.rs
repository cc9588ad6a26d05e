//! One POST or one GET, bounded in time and size. What went wrong is said in words of our own: an address may be a secret.

use std::time::Duration;

use ring::hmac;
use ureq::{Agent, Error, Timeout};

use crate::transport::Refused;

/// The header that holds the signature of a webhook's body: `sha256=` and 64 hex digits.
const SIGNATURE: &str = "X-Netsky-Signature";

/// A request to be.
pub(crate) struct Post<'a> {
    pub(crate) url: &'a str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: &'a [u8],
}

/// The header by which a receiver knows who signed a body.
pub(crate) fn signature(secret: &[u8], body: &[u8]) -> (&'static str, String) {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), body);
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    (SIGNATURE, format!("sha256={hex}"))
}

fn agent(limit: Duration) -> Agent {
    Agent::config_builder()
        .timeout_global(Some(limit))
        // Before that is over: until there is a connection nobody has the page.
        .timeout_resolve(Some(limit * 9 / 10))
        .timeout_connect(Some(limit * 9 / 10))
        // A redirected POST would give the page to whom the owner did not name.
        .max_redirects(0)
        .user_agent("netsky")
        .build()
        .into()
}

/// What an address says to who asks, of at most so many bytes; none where it does not say it in time.
pub(crate) fn get(
    url: &str,
    headers: &[(&'static str, String)],
    most: u64,
    limit: Duration,
) -> Option<String> {
    let mut request = agent(limit).get(url);
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let mut answer = request.call().ok().filter(|answer| answer.status().is_success())?;
    answer.body_mut().with_config().limit(most).read_to_string().ok()
}

/// Sends it; done once the answer is one of success. Its body is not read.
pub(crate) fn post(post: &Post<'_>, limit: Duration) -> Result<(), Refused> {
    let agent = agent(limit);
    let mut request = agent.post(post.url);
    for (name, value) in &post.headers {
        request = request.header(*name, value);
    }
    match request.send(post.body) {
        Ok(answer) if answer.status().is_success() => Ok(()),
        Ok(answer) => Err(Refused::surely(format!("answered {}", answer.status().as_u16()))),
        Err(error) => Err(refused(&error)),
    }
}

fn refused(error: &Error) -> Refused {
    match error {
        Error::StatusCode(code) => Refused::surely(format!("answered {code}")),
        Error::HostNotFound => Refused::surely("its host is not known"),
        Error::ConnectionFailed => Refused::surely("no connection"),
        Error::BadUri(_) | Error::Http(_) => Refused::surely("its url or a header is none"),
        Error::Tls(_) | Error::Rustls(_) => Refused::surely("TLS failed"),
        Error::Timeout(Timeout::Resolve | Timeout::Connect) => Refused::surely("no connection in time"),
        Error::Timeout(_) => Refused::perhaps("no answer in time"),
        Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Refused::surely("connection refused")
        }
        Error::Io(error) => Refused::perhaps(error.kind().to_string()),
        _ => Refused::perhaps("no answer that is one"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t27_a_host_that_makes_no_connection_in_time_surely_has_no_page() {
        // It accepts, and never greets.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
        let address = listener.local_addr().expect("bound");
        let doubtful = |scheme: &str| {
            let url = &format!("{scheme}://{address}/topic");
            let page = Post { url, headers: Vec::new(), body: b"text" };
            post(&page, Duration::from_secs(1)).expect_err("nobody answers").doubtful
        };
        assert!(!doubtful("https"), "nothing of it was sent");
        assert!(doubtful("http"), "it was sent, and may have been read");
    }

    #[test]
    fn a17_a_body_is_signed_as_rfc_4231_says() {
        let (_, signed) = signature(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(signed, "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }
}
