//! Copies of robots.txt that count for one crawler only, among nodes.

use super::engines::{Product, Server};
use super::proxies::{node, refresh};
use crate::robots::identity::{ORDERS, expect_no_disallowed_page, host, sites, visit};

#[test]
fn copies_of_one_crawler_count_for_no_other_on_any_node() {
    let origin = sites();
    let server = Server::start(Product::Redis);
    let nodes = [(); 3].map(|()| {
        node(&origin, &server, |settings| {
            settings.crawler("example", "ExampleBot").crawler("other", "OtherBot")
        })
    });
    for order in ORDERS {
        for kind in ["known", "varies"] {
            let host = host(kind, order);
            // Each client first asks another node.
            for (node, number) in nodes.iter().zip(order) {
                visit(node, &host, &[number], "first");
            }
            refresh(&nodes[0], &host);
            for node in &nodes {
                visit(node, &host, &order, "refreshed");
            }
        }
    }
    expect_no_disallowed_page(&origin);
}
