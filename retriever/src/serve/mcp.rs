//! The Model Context Protocol.

use std::sync::Arc;

use axum::Router;

use super::service::Service;

pub(super) fn router(_service: &Arc<Service>) -> Router<Arc<Service>> {
    Router::new()
}
