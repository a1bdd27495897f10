//! The console: pages for a browser, which are part of the program.
//!
//! The files in `console/` are built from `ui/` and committed, so that nobody who builds treecast needs Node. `ui/README.md` has the
//! commands.

use axum::{Router, http::header, response::IntoResponse, routing::get};

/// What a page may load: only what comes from here.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

/// Returns what serves the pages.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", get(|| page(include_str!("console/index.html"), "text/html; charset=utf-8")))
        .route(
            "/console.js",
            get(|| page(include_str!("console/console.js"), "text/javascript; charset=utf-8")),
        )
        .route("/console.css", get(|| page(include_str!("console/console.css"), "text/css; charset=utf-8")))
        .route(
            "/licenses.txt",
            get(|| page(include_str!("console/licenses.txt"), "text/plain; charset=utf-8")),
        )
}

async fn page(text: &'static str, kind: &'static str) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text)
}
