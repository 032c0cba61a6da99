//! May it, and when? A request judged, held back until its turn, and judged again if it had to wait: by then other rules, or
//! another robots.txt, may hold.

use super::Flow;
use crate::flow::decide::identify::{self, Identified};
use crate::flow::decide::permit::Facts;
use crate::flow::decide::permit::Judged;
use crate::flow::decide::request::Request;
use crate::flow::decide::resolve::{Asking, Scope};
use crate::http::client::Client;
use crate::http::received::HalfClosed;

impl Flow {
    /// Judges a request, and waits for its turn if it may go on.
    pub(crate) async fn judge_in_turn(
        &self,
        asking: Asking<'_>,
        client: &mut Client,
    ) -> Judged<'_> {
        let mut judged = self.judge_once(asking, client).await;
        let permit = match judged.verdict.take() {
            Some(Ok(permit)) if permit.resolved.scope != Scope::Bypass => permit,
            verdict => return Judged { verdict, ..judged },
        };
        let identity = &judged.identified.identity;
        let waiting = self.await_turn(&judged.settings, identity, &mut judged.facts, permit);
        judged.verdict = client
            .while_there(asking.received.half_closed(), waiting)
            .await;
        if judged.facts.waited.is_zero() {
            return judged;
        }
        // Few come here: in a box it takes no room in every connection.
        Box::pin(self.judge_again(asking, client, judged)).await
    }

    async fn judge_once(&self, asking: Asking<'_>, client: &mut Client) -> Judged<'_> {
        let Asking {
            connection,
            received,
            ..
        } = asking;
        let settings = self.settings();
        let request = Request::of(received, &settings.options.name);
        let mut url = request.target.clone().into_owned();
        let crawlers = &settings.crawlers;
        let identifying = identify::identify(crawlers, &self.metrics, connection, &request);
        let identified = client
            .while_there(received.half_closed(), identifying)
            .await;
        let Some(mut identified) = identified else {
            let identity = identify::recognise(crawlers, connection, None, &request);
            return Judged {
                identified: Identified {
                    client: connection.client,
                    identity,
                    proof: None,
                    objection: None,
                },
                settings,
                url,
                facts: Facts::default(),
                verdict: None,
            };
        };
        let judging = self.judge(&settings, asking, &mut identified, &request, &mut url);
        let judged = client.while_there(HalfClosed::IsThere, judging).await;
        let (facts, verdict) = judged.unzip();
        Judged {
            settings,
            identified,
            url,
            facts: facts.unwrap_or_default(),
            verdict,
        }
    }

    /// Judges a request once more whose turn has come. It keeps the turn that it waited for.
    async fn judge_again<'a>(
        &'a self,
        asking: Asking<'_>,
        client: &mut Client,
        waited: Judged<'a>,
    ) -> Judged<'a> {
        let Some(Ok(before)) = waited.verdict else {
            return waited;
        };
        let mut judged = self.judge_once(asking, client).await;
        judged.facts.waited = waited.facts.waited;
        if let Some(Ok(permit)) = &mut judged.verdict {
            permit.turn = before.turn;
            permit.observed = permit.observed.take().or(before.observed);
        }
        judged
    }
}
