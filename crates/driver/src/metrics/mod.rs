//! Serves a session's figures for Prometheus: `GET /metrics` over HTTP, in the text format of OpenMetrics.
//!
//! The figures come from the session's [`Board`]. They are formatted again only when they have changed.
//! Requests are handled as in [`crate::status`]: nobody can delay the session, or use up its memory.

mod figures;
pub mod page;

use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use self::figures::Figures;
use crate::status::{Board, answer::Answerer};

/// The most headers of a request, which is more than Prometheus sends.
const MAX_HEADERS: usize = 64;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Content type of the answer to a request for another page, which a person reads.
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// A server that answers until it is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    _answerer: Answerer,
    /// The address. If port 0 was asked for, it has the port that the kernel chose.
    pub address: SocketAddr,
}

/// Starts to answer at `address` with the board's figures.
///
/// # Errors
/// One line, if the address cannot be used.
pub fn serve(address: SocketAddr, board: &Board) -> Result<MetricsServer, String> {
    let mut figures = Figures::default();
    let page = board.clone().render(move |snapshot| metrics_response(&figures.render(snapshot)));
    start(address, page)
}

/// Starts to answer at `address` with what `page` returns, in the text format of OpenMetrics ([`page`]).
///
/// # Errors
/// One line, if the address cannot be used.
pub fn serve_page(
    address: SocketAddr,
    mut page: impl FnMut() -> String + Send + 'static,
) -> Result<MetricsServer, String> {
    start(address, move || metrics_response(&page()))
}

fn start(
    address: SocketAddr,
    mut page: impl FnMut() -> Arc<[u8]> + Send + 'static,
) -> Result<MetricsServer, String> {
    let refused =
        |error| format!("cannot answer Prometheus at {address}: {error}; choose a free address of this host");
    let listener = TcpListener::bind(address).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let answer = move |request: &[u8]| match judge(request) {
        Verdict::More => None,
        Verdict::Metrics => Some(page()),
        Verdict::Refused(status) => {
            Some(response(status, PLAIN_TEXT, &format!("{status}: the figures are at GET /metrics\n")))
        }
    };
    let answerer = Answerer::start(listener, Box::new(answer)).map_err(refused)?;
    Ok(MetricsServer { _answerer: answerer, address })
}

enum Verdict {
    /// The request is not whole yet.
    More,
    Metrics,
    Refused(&'static str),
}

fn judge(request: &[u8]) -> Verdict {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(request) {
        Ok(httparse::Status::Partial) => Verdict::More,
        Err(_) => Verdict::Refused("400 Bad Request"),
        Ok(_) if parsed.method != Some("GET") => Verdict::Refused("405 Method Not Allowed"),
        Ok(_) => match parsed.path.and_then(|path| path.split('?').next()) {
            Some("/metrics") => Verdict::Metrics,
            _ => Verdict::Refused("404 Not Found"),
        },
    }
}

fn metrics_response(text: &str) -> Arc<[u8]> {
    response("200 OK", CONTENT_TYPE, text)
}

fn response(status: &str, content_type: &str, body: &str) -> Arc<[u8]> {
    let len = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n"
    );
    (head + body).into_bytes().into()
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpStream,
    };

    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn prometheus_is_answered_and_others_are_refused() {
        let board = Board::default();
        let server = serve("127.0.0.1:0".parse().unwrap(), &board).unwrap();
        let metrics = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        assert!(ask(server.address, metrics).contains("\ntreecast_objects 0\n"));
        board.update(|snapshot| snapshot.sending().unwrap().progress.objects = 7);
        let answer = ask(server.address, metrics);
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\ntreecast_objects 7\n"),
            "{answer}"
        );
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("nonsense\r\n\r\n", "400"),
        ] {
            let answer = ask(server.address, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}");
            assert!(answer.contains("text/plain") && answer.ends_with("GET /metrics\n"), "{answer}");
        }
        let line = serve(server.address, &board).unwrap_err();
        assert!(
            line.contains(&server.address.to_string()) && line.contains("choose a free address"),
            "{line}"
        );
    }
}
