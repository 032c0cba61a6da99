//! A crawler that obeys: fetches the URLs that it is given, and says of each what came of it.
//!
//! ```sh
//! cargo run -p wayleave-gate --example crawler -- config.toml news http://shop.example/ http://shop.example/private
//! ```

use std::error::Error;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tower::{ServiceBuilder, ServiceExt};
use wayleave_gate::{Gate, GateLayer, Refused};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let config = arguments.next().ok_or("usage: crawler CONFIG CRAWLER URL...")?;
    let name = arguments.next().ok_or("usage: crawler CONFIG CRAWLER URL...")?;

    let gate = Gate::from_config(config).await?;
    let crawler = gate.crawler(&name)?;
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let client =
        ServiceBuilder::new().layer(GateLayer::new(gate.clone(), &crawler)).service(client);

    for url in arguments {
        let request = Request::get(&url).body(Empty::new())?;
        match client.clone().oneshot(request).await {
            Ok(response) => {
                let (head, content) = response.into_parts();
                if let Some(refused) = head.extensions.get::<Refused>() {
                    println!("{url}: refused: {refused}");
                    continue;
                }
                match content.collect().await {
                    Ok(content) => {
                        println!("{url}: {}, {} bytes", head.status, content.to_bytes().len());
                    }
                    Err(error) => println!("{url}: {}, and then {error}", head.status),
                }
            }
            Err(error) => println!("{url}: {error}"),
        }
    }
    gate.close().await;
    Ok(())
}
