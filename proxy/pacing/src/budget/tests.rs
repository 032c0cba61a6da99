use std::os::unix::fs::PermissionsExt as _;
use std::pin::pin;
use std::sync::{Arc, mpsc};

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tempfile::TempDir;
use wayleave_fleet::engine::EngineFailure;
use wayleave_fleet::memory::MemoryEngine;
use wayleave_robots_txt::ProductToken;

use super::*;

/// Half past eleven in the evening of a day.
fn evening() -> SystemTime {
    SystemTime::UNIX_EPOCH + DAY * 20_000 - Duration::from_secs(30 * 60)
}

fn crawler(requests: u64, bytes: u64, new_origins: u64) -> Crawler {
    let mut crawler = Crawler::new("news", vec![ProductToken::new("NewsBot").unwrap()]);
    crawler.budget = DailyBudget { requests, bytes, new_origins };
    crawler
}

fn origin(number: usize) -> Origin {
    Origin::parse(&format!("https://shop-{number}.test")).unwrap()
}

fn open(dir: &TempDir, clock: Clock) -> DailyBudgets {
    DailyBudgets::open(dir.path(), clock, Fleet::default()).unwrap()
}

/// Returns how many of this many requests, each to its own origin, may be sent.
async fn taken(budgets: &DailyBudgets, crawler: &Crawler, requests: usize) -> usize {
    let mut taken = 0;
    for number in 0..requests {
        taken += usize::from(budgets.take(crawler, &origin(number)).await.is_ok());
    }
    taken
}

#[tokio::test(start_paused = true)]
async fn a_budget_is_spent_until_midnight() {
    let dir = tempfile::tempdir().unwrap();
    let budgets = open(&dir, Clock::start_at(evening()));
    let news = crawler(3, 0, 0);
    assert_eq!(taken(&budgets, &news, 5).await, 3);
    let spent = budgets.spent(&news, &origin(0)).unwrap();
    assert_eq!((spent.kind, spent.limit), (BudgetKind::Requests, 3));
    assert_eq!(spent.retry_after, Duration::from_secs(30 * 60));
    tokio::time::advance(Duration::from_secs(30 * 60 - 1)).await;
    assert_eq!(budgets.spent(&news, &origin(0)).unwrap().retry_after, Duration::from_secs(1));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(budgets.spent(&news, &origin(0)), None);
    assert_eq!(taken(&budgets, &news, 5).await, 3);
    assert_eq!(budgets.spent(&news, &origin(0)).unwrap().retry_after, DAY);
}

#[tokio::test(start_paused = true)]
async fn a_response_may_run_over_the_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let budgets = open(&dir, Clock::start_at(evening()));
    let news = crawler(0, 100, 0);
    let meter = ByteMeter { budgets: &budgets, crawler: &news };
    assert_eq!(taken(&budgets, &news, 1).await, 1);
    meter.add(99);
    assert_eq!(taken(&budgets, &news, 1).await, 1);
    meter.add(1000);
    assert_eq!(budgets.take(&news, &origin(0)).await.unwrap_err().kind, BudgetKind::Bytes);
    let uses = [BudgetUse { kind: BudgetKind::Bytes, used: 1099, limit: 100 }];
    assert_eq!(budgets.usage(&news), uses);
}

#[tokio::test(start_paused = true)]
async fn origins_count_once_a_day() {
    let dir = tempfile::tempdir().unwrap();
    let budgets = open(&dir, Clock::start_at(evening()));
    let news = crawler(0, 0, 2);
    for _ in 0..3 {
        assert_eq!(taken(&budgets, &news, 4).await, 2);
    }
    assert_eq!(budgets.spent(&news, &origin(1)), None);
    assert_eq!(budgets.spent(&news, &origin(2)).unwrap().kind, BudgetKind::NewOrigins);
    tokio::time::advance(DAY).await;
    assert_eq!(budgets.take(&news, &origin(3)).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn counts_outlive_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::start_at(evening());
    let news = crawler(5, 0, 3);
    let free = crawler(0, 0, 0);
    let budgets = open(&dir, clock);
    assert_eq!(taken(&budgets, &free, 9).await, 9);
    budgets.save();
    assert!(!dir.path().join(FILE).exists(), "nothing is counted without a budget");
    assert_eq!(taken(&budgets, &news, 2).await, 2);
    budgets.save();
    let mode = dir.path().join(FILE).metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640, "the group may read it");
    assert_eq!(budgets.take(&news, &origin(2)).await, Ok(()));
    // Killed here, it forgets what it has not written.
    let budgets = open(&dir, clock);
    assert_eq!(taken(&budgets, &news, 9).await, 3, "two origins are known, one is new");
    assert_eq!(budgets.take(&news, &origin(0)).await.unwrap_err().kind, BudgetKind::Requests);
    budgets.save();
    assert_eq!(taken(&open(&dir, clock), &news, 9).await, 0);
    tokio::time::advance(DAY).await;
    assert_eq!(taken(&open(&dir, clock), &news, 9).await, 3);
}

#[tokio::test(start_paused = true)]
async fn counts_are_written_every_few_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::start_at(evening());
    let budgets = Arc::new(open(&dir, clock));
    let keeping = Arc::clone(&budgets);
    let keeping = tokio::spawn(async move { keeping.keep().await });
    assert_eq!(taken(&budgets, &crawler(2, 0, 0), 2).await, 2);
    tokio::time::sleep(SAVE_INTERVAL + Duration::from_secs(1)).await;
    keeping.abort();
    assert_eq!(taken(&open(&dir, clock), &crawler(2, 0, 0), 2).await, 0);
}

#[tokio::test(start_paused = true)]
async fn counts_are_written_only_after_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let budgets = Arc::new(open(&dir, Clock::start_at(evening())));
    let keeping = Arc::clone(&budgets);
    let keeping = tokio::spawn(async move { keeping.keep().await });
    let file = dir.path().join(FILE);
    for _ in 0..2 {
        tokio::time::sleep(3 * SAVE_INTERVAL).await;
        assert!(!file.exists(), "nothing has changed");
        assert_eq!(taken(&budgets, &crawler(9, 0, 0), 1).await, 1);
        tokio::time::sleep(SAVE_INTERVAL + Duration::from_secs(1)).await;
        std::fs::remove_file(&file).expect("it was written");
    }
    keeping.abort();
}

#[tokio::test(start_paused = true)]
async fn a_damaged_file_is_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(FILE), "{").unwrap();
    let clock = Clock::start_at(evening());
    let error = DailyBudgets::open(dir.path(), clock, Fleet::default()).unwrap_err();
    assert!(format!("{error:#}").contains("delete it to count from zero"), "{error:#}");
}

/// A node of a fleet, with its own state directory.
struct Node {
    dir: TempDir,
    budgets: DailyBudgets,
}

async fn node(engine: &MemoryEngine, name: &str, clock: Clock) -> Node {
    let dir = tempfile::tempdir().unwrap();
    let fleet = engine.join(name).await;
    let budgets = DailyBudgets::open(dir.path(), clock, fleet).unwrap();
    Node { dir, budgets }
}

/// Returns an engine, and two nodes of its fleet on an evening.
async fn two_nodes() -> (MemoryEngine, [Node; 2]) {
    let engine = MemoryEngine::new("setup");
    let clock = Clock::start_at(evening());
    let nodes = [node(&engine, "a", clock).await, node(&engine, "b", clock).await];
    (engine, nodes)
}

#[tokio::test(start_paused = true)]
async fn a_fleet_has_one_budget() {
    let engine = MemoryEngine::new("setup");
    let clock = Clock::start_at(evening());
    let nodes = [node(&engine, "a", clock).await, node(&engine, "b", clock).await];
    let news = crawler(7, 0, 0);
    let requests = (0..20).map(|number| {
        let budgets = &nodes[number % 2].budgets;
        let news = &news;
        async move { budgets.take(news, &origin(number)).await.is_ok() }
    });
    let taken_now = join_all(requests).await.into_iter().filter(|is_taken| *is_taken).count();
    assert_eq!(taken_now, 7);
    // A node that lost its counts is told them.
    let Node { dir, .. } = &nodes[0];
    std::fs::write(dir.path().join(FILE), nodes[0].budgets.counts().copy_current(&[0]).encode())
        .unwrap();
    let again = DailyBudgets::open(dir.path(), clock, engine.join("a2").await).unwrap();
    assert_eq!(taken(&again, &news, 1).await, 0);
    tokio::time::advance(DAY).await;
    assert_eq!(taken(&nodes[1].budgets, &news, 9).await, 7);
    assert_eq!(taken(&nodes[0].budgets, &news, 9).await, 0);
}

#[tokio::test(start_paused = true)]
async fn other_nodes_origins_and_bytes_count() {
    let (_engine, [a, b]) = two_nodes().await;
    let news = crawler(0, 1000, 2);
    assert_eq!(a.budgets.take(&news, &origin(0)).await, Ok(()));
    assert_eq!(b.budgets.take(&news, &origin(1)).await, Ok(()));
    assert_eq!(a.budgets.take(&news, &origin(2)).await.unwrap_err().kind, BudgetKind::NewOrigins);
    assert_eq!(a.budgets.take(&news, &origin(1)).await, Ok(()), "the other node's");
    a.budgets.add_bytes("news", 1000);
    a.budgets.report_all().await;
    assert_eq!(b.budgets.take(&news, &origin(1)).await.unwrap_err().kind, BudgetKind::Bytes);
}

#[tokio::test(start_paused = true)]
async fn without_the_engine_each_node_has_its_share() {
    let (engine, [a, b]) = two_nodes().await;
    let news = crawler(20, 0, 0);
    // Until both have seen each other.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(taken(&a.budgets, &news, 4).await, 4);
    assert_eq!(taken(&b.budgets, &news, 2).await, 2);
    engine.fail(Some(EngineFailure::Connection("gone".to_owned())));
    // Of twenty, a knew of four and b of six.
    assert_eq!(taken(&a.budgets, &news, 20).await, 8);
    assert_eq!(taken(&b.budgets, &news, 20).await, 7);
    a.budgets.save();
    engine.fail(None);
    tokio::time::sleep(Duration::from_secs(10)).await;
    a.budgets.report_all().await;
    b.budgets.report_all().await;
    // 4 + 2 + 8 + 7 = 21: one more than one node alone would have sent.
    assert_eq!(taken(&a.budgets, &news, 9).await, 0);
    assert_eq!(taken(&b.budgets, &news, 9).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_goes_back_over_midnight_gives_nothing_back() {
    let dir = tempfile::tempdir().unwrap();
    let set_to = Arc::new(Mutex::new(evening()));
    let shown = Arc::clone(&set_to);
    let clock = Clock::with_calendar(move || *shown.lock().unwrap());
    let hour = Duration::from_secs(60 * 60);
    let news = crawler(3, 0, 0);
    let budgets = open(&dir, clock);
    assert_eq!(taken(&budgets, &news, 5).await, 3);
    *set_to.lock().unwrap() = evening() + hour;
    assert_eq!(taken(&budgets, &news, 2).await, 2, "another day");
    *set_to.lock().unwrap() = evening();
    assert_eq!(taken(&budgets, &news, 5).await, 0);
    budgets.save();
    let budgets = open(&dir, clock);
    assert_eq!(taken(&budgets, &news, 5).await, 0);
    *set_to.lock().unwrap() = evening() + hour;
    assert_eq!(taken(&budgets, &news, 5).await, 1);
    // A clock that was wrong by a month holds nobody for a month.
    *set_to.lock().unwrap() = evening() - 30 * DAY;
    assert_eq!(taken(&budgets, &news, 5).await, 3);
}

/// A clock that is ahead for a moment, and crosses midnight meanwhile, while the counts are written.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_wrong_for_a_minute_resets_no_budget() {
    let dir = tempfile::tempdir().unwrap();
    let set_to = Arc::new(Mutex::new(evening()));
    let shown = Arc::clone(&set_to);
    let clock = Clock::with_calendar(move || *shown.lock().unwrap());
    let news = crawler(3, 0, 0);
    let mut budgets = open(&dir, clock);
    assert_eq!(taken(&budgets, &news, 5).await, 3);
    for ahead in [40 * DAY, 41 * DAY, 400 * DAY] {
        *set_to.lock().unwrap() = evening() + ahead;
        assert_eq!(taken(&budgets, &news, 5).await, 3);
        budgets.save();
        // A restart meanwhile makes no difference.
        budgets = open(&dir, clock);
    }
    *set_to.lock().unwrap() = evening();
    assert_eq!(taken(&budgets, &news, 5).await, 0);
    budgets.count_observed(&news, &origin(0));
    budgets.save();
    assert_eq!(taken(&open(&dir, clock), &news, 5).await, 0);
    assert_eq!(budgets.counts().days.len(), 0, "nothing is kept of those days");
}

/// A clock that was ahead for good is believed after a day, and then nothing is kept of the days before.
#[tokio::test(start_paused = true)]
async fn days_before_a_settled_step_are_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let set_to = Arc::new(Mutex::new(evening()));
    let shown = Arc::clone(&set_to);
    let clock = Clock::with_calendar(move || *shown.lock().unwrap());
    let news = crawler(3, 0, 0);
    let budgets = open(&dir, clock);
    assert_eq!(taken(&budgets, &news, 5).await, 3);
    let mut kept = Vec::new();
    for days in [40, 41] {
        *set_to.lock().unwrap() = evening() + DAY * days;
        assert_eq!(taken(&budgets, &news, 5).await, 3);
        budgets.save();
        kept.push(budgets.counts().days["news"].len());
        tokio::time::advance(DAY).await;
    }
    assert_eq!(kept, [1, 1], "first that of the settled time, then that of the day before");
    let days: Vec<_> = budgets.counts().days["news"].iter().map(|usage| usage.day).collect();
    assert_eq!(days, [day(evening()) + 40]);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_requests_at_once_do_not_overshoot() {
    let engine = MemoryEngine::new("setup");
    let clock = Clock::start_at(evening());
    let dir = tempfile::tempdir().unwrap();
    let alone = open(&dir, clock);
    let news = crawler(1005, 0, 0);
    assert_eq!(taken(&alone, &news, 990).await, 990);
    let at_once = |nodes: Vec<DailyBudgets>| {
        let news = news.clone();
        async move {
            let news = &news;
            let nodes = &nodes;
            let requests = (0..1000).map(|number| async move {
                nodes[number % nodes.len()].take(news, &origin(number)).await.is_ok()
            });
            join_all(requests).await.into_iter().filter(|is_taken| *is_taken).count()
        }
    };
    assert_eq!(at_once(vec![alone]).await, 15);
    let nodes = [node(&engine, "a", clock).await, node(&engine, "b", clock).await];
    assert_eq!(taken(&nodes[0].budgets, &news, 990).await, 990);
    assert_eq!(at_once(nodes.map(|node| node.budgets).into()).await, 15);
}

#[tokio::test(start_paused = true)]
async fn requests_counted_without_the_engine_are_reported_once() {
    let (engine, [a, b]) = two_nodes().await;
    let news = crawler(10, 1000, 4);
    engine.fail(Some(EngineFailure::Connection("gone".to_owned())));
    assert_eq!(a.budgets.take(&news, &origin(0)).await, Ok(()));
    engine.fail(None);
    tokio::time::sleep(Duration::from_secs(10)).await;
    a.budgets.report_all().await;
    for (node, number) in [(&b, 1), (&b, 2), (&a, 3)] {
        assert_eq!(node.budgets.take(&news, &origin(number)).await, Ok(()), "{number}");
    }
    // What is refused is not counted, however often it is tried.
    for _ in 0..9 {
        let refused = a.budgets.take(&news, &origin(4)).await.unwrap_err();
        assert_eq!(refused.kind, BudgetKind::NewOrigins);
    }
    for (kind, used) in [(BudgetKind::Requests, 4), (BudgetKind::NewOrigins, 4)] {
        let uses = a.budgets.usage(&news);
        assert!(uses.iter().any(|part| part.kind == kind && part.used == used), "{uses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_reach_the_other_nodes_without_a_request() {
    let (engine, [a, b]) = two_nodes().await;
    let news = crawler(0, 1000, 0);
    let Node { dir: _dir, budgets } = a;
    let budgets = Arc::new(budgets);
    let keeping = Arc::clone(&budgets);
    let keeping = tokio::spawn(async move { keeping.keep().await });
    engine.fail(Some(EngineFailure::Connection("gone".to_owned())));
    budgets.add_bytes("news", 1000);
    tokio::time::sleep(SAVE_INTERVAL + Duration::from_secs(1)).await;
    engine.fail(None);
    // Nothing is counted any more, but what was not reported still has to be.
    tokio::time::sleep(4 * SAVE_INTERVAL).await;
    keeping.abort();
    assert_eq!(b.budgets.take(&news, &origin(0)).await.unwrap_err().kind, BudgetKind::Bytes);
}

/// A node that has left its fleet has the engine's last answer of today.
#[tokio::test(start_paused = true)]
async fn origins_are_limited_after_a_node_has_left_its_fleet() {
    let (_engine, [a, b]) = two_nodes().await;
    let news = crawler(0, 0, 3);
    for (node, number) in [(&a, 0), (&b, 1)] {
        assert_eq!(node.budgets.take(&news, &origin(number)).await, Ok(()));
    }
    assert_eq!(a.budgets.take(&news, &origin(0)).await, Ok(()));
    a.budgets.save();
    let alone = open(&a.dir, a.budgets.clock);
    assert_eq!(taken(&alone, &news, 9).await, 1 + 1, "a known origin, and a new one");
}

/// Returns the requests that count today, as a node knows them.
fn counted(node: &Node, crawler: &Crawler) -> u64 {
    let uses = node.budgets.usage(crawler);
    uses.iter().find(|part| part.kind == BudgetKind::Requests).expect("a limit").used
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_is_not_charged_by_another_ones_answer() {
    let (engine, [a, b]) = two_nodes().await;
    let news = crawler(8, 0, 1);
    assert_eq!(a.budgets.take(&news, &origin(0)).await, Ok(()));
    engine.serve_one_at_a_time(Duration::from_millis(1), SAVE_INTERVAL);
    // Both are in question at the same time.
    let [known, new] = [origin(0), origin(1)];
    let both = [&new, &known].map(|origin| a.budgets.take(&news, origin));
    let both = join_all(both).await;
    assert_eq!(both[0].map_err(|spent| spent.kind), Err(BudgetKind::NewOrigins));
    assert_eq!(both[1], Ok(()));
    assert_eq!(counted(&a, &news), 2);
    // The other node may use all the rest.
    let others = (0..9).map(|_| b.budgets.take(&news, &known));
    let others = join_all(others).await.into_iter().filter(Result::is_ok).count();
    assert_eq!((others, counted(&b, &news)), (6, 8));
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_client_leaves_does_not_count() {
    let (engine, [a, b]) = two_nodes().await;
    let news = crawler(10, 0, 0);
    assert_eq!(taken(&a.budgets, &news, 5).await, 5);
    engine.serve_one_at_a_time(Duration::from_millis(1), SAVE_INTERVAL);
    let shop = origin(0);
    let leaving = || async {
        let take = pin!(a.budgets.take(&news, &shop));
        assert!(take.now_or_never().is_none(), "the engine is asked, and has not answered");
    };
    for _ in 0..3 {
        leaving().await;
    }
    assert_eq!(counted(&a, &news), 5);
    let at_once = join_all((0..9).map(|_| a.budgets.take(&news, &shop))).await;
    assert_eq!(at_once.iter().filter(|taken| taken.is_ok()).count(), 5);
    assert_eq!((counted(&a, &news), taken(&b.budgets, &news, 1).await), (10, 0));
}

#[tokio::test(start_paused = true)]
async fn clients_that_leave_at_the_limit_hold_no_place() {
    let (engine, [a, b]) = two_nodes().await;
    let news = crawler(10, 0, 0);
    assert_eq!(taken(&b.budgets, &news, 2).await, 2);
    assert_eq!(taken(&a.budgets, &news, 5).await, 5);
    engine.serve_one_at_a_time(Duration::from_millis(1), SAVE_INTERVAL);
    let shop = origin(0);
    for _ in 0..3 {
        let take = pin!(a.budgets.take(&news, &shop));
        assert!(take.now_or_never().is_none());
    }
    // The engine has counted ten.
    assert_eq!(taken(&a.budgets, &news, 3).await, 3);
    assert_eq!((counted(&a, &news), taken(&b.budgets, &news, 1).await), (10, 0));
}

/// Requests whose answers are lost are decided alone, and the limit holds when the engine answers again.
#[tokio::test(start_paused = true)]
async fn lost_answers_neither_add_to_a_budget_nor_use_it_up() {
    let engine = MemoryEngine::new("setup");
    let clock = Clock::start_at(evening());
    let a = node(&engine, "a", clock).await;
    let news = crawler(20, 0, 1);
    assert_eq!(a.budgets.take(&news, &origin(0)).await, Ok(()));
    // Only the first of three is answered in time.
    engine.serve_one_at_a_time(Duration::from_millis(10), Duration::from_millis(15));
    let shops = [0, 1, 0].map(origin);
    let three = join_all(shops.iter().map(|shop| a.budgets.take(&news, shop))).await;
    assert_eq!(three.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(counted(&a, &news), 3);
    engine.serve_one_at_a_time(Duration::ZERO, Duration::ZERO);
    let shop = origin(0);
    let rest = join_all((0..100).map(|_| a.budgets.take(&news, &shop))).await;
    assert_eq!(rest.iter().filter(|taken| taken.is_ok()).count(), 17);
}

/// The disk may be slow: whoever writes holds no worker, and no lock that requests need.
#[tokio::test(start_paused = true)]
async fn requests_are_counted_while_the_counts_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::start_at(evening());
    let budgets = Arc::new(open(&dir, clock));
    let news = crawler(5, 0, 0);
    let (has_begun, begun) = mpsc::channel();
    let (end, has_to_end) = mpsc::channel();
    let slow_disk = Arc::clone(&budgets);
    let slow_disk = std::thread::spawn(move || {
        let _writing = slow_disk.writing.lock().unwrap();
        has_begun.send(()).unwrap();
        // Bounded, or a failure would hang.
        has_to_end.recv_timeout(Duration::from_secs(10)).is_ok()
    });
    begun.recv().unwrap();
    let keeping = Arc::clone(&budgets);
    let keeping = tokio::spawn(async move { keeping.keep().await });
    assert_eq!(taken(&budgets, &news, 1).await, 1);
    tokio::task::yield_now().await;
    tokio::time::advance(SAVE_INTERVAL + Duration::from_secs(1)).await;
    tokio::task::yield_now().await;
    assert_eq!(taken(&budgets, &news, 1).await, 1);
    let was_ended = end.send(()).is_ok();
    assert!(slow_disk.join().unwrap() && was_ended, "the worker waited for the disk");
    // At the end of the process everything is written, whatever was in progress.
    budgets.save();
    keeping.abort();
    assert_eq!(taken(&open(&dir, clock), &news, 9).await, 3);
}
