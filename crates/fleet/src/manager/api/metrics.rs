//! The manager's figures, for Prometheus.

use std::net::SocketAddr;

use axum::{
    extract::{ConnectInfo, FromRequestParts, State},
    http::{header, request::Parts},
    response::{IntoResponse, Response},
};

use super::{
    Api, By, Denied,
    described::{Given, Operation, Taken, other},
};
use crate::manager::metrics;

/// Somebody who may read the figures: whoever has logged in, and the addresses of the manager's configuration.
pub struct Reader;

impl Taken for Reader {
    fn describe(operation: &mut Operation) {
        operation.asks_who();
    }
}

impl FromRequestParts<Api> for Reader {
    type Rejection = Denied;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Denied> {
        let from = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|from| from.0.ip());
        let listed = &api.0.options.config.metrics.from;
        if from.is_some_and(|from| listed.iter().any(|network| network.contains(from))) {
            return Ok(Self);
        }
        By::from_request_parts(parts, api).await.map(|_| Self)
    }
}

/// The figures.
pub struct Figures(String);

/// The kind of the figures' text.
const KIND: &str = "text/plain; version=0.0.4";

impl IntoResponse for Figures {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, KIND)], self.0).into_response()
    }
}

impl Given for Figures {
    fn describe(operation: &mut Operation) {
        other(operation, 200, "The figures, as Prometheus reads them", Some(KIND));
    }
}

pub async fn metrics(State(api): State<Api>, _: Reader) -> Result<Figures, Denied> {
    let options = &api.0.options;
    let database = options.state.join(crate::manager::DATABASE);
    Ok(Figures(metrics::text(api.hub(), &database, &options.version).await?))
}
