//! Answers about URLs of many origins, several origins at a time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{panic, thread};

use wayleave_robots_txt::Origin;

/// The maximum number of origins that are asked at a time: one that does not answer holds up the others' turns for the whole
/// timeout of a fetch.
const MAX_ORIGINS: usize = 32;

/// Returns the answer about each URL, in their order. `origins` are those of the URLs, and `answer` gets a URL's index. It may
/// block: the URLs of one origin are answered one after the other, those of different origins at the same time.
pub(super) fn answer_by_origin<T: Send>(
    origins: &[&Origin],
    answer: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let of_origin =
        |indexes: &[usize]| indexes.iter().map(|&index| (index, answer(index))).collect::<Vec<_>>();
    let mut answers: Vec<_> = for_each_origin(origins, of_origin).into_iter().flatten().collect();
    answers.sort_unstable_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Returns the results of `work` for each origin, in the order of their first URLs. It gets the indexes of the origin's URLs, and
/// may block: several origins are worked on at the same time.
pub(crate) fn for_each_origin<T: Send>(
    origins: &[&Origin],
    work: impl Fn(&[usize]) -> T + Sync,
) -> Vec<T> {
    let groups = group(origins);
    let next_group = AtomicUsize::new(0);
    let work_on_groups = || {
        let mut results = Vec::new();
        loop {
            let number = next_group.fetch_add(1, Ordering::Relaxed);
            let Some(indexes) = groups.get(number) else { return results };
            results.push((number, work(indexes)));
        }
    };
    let mut results = Vec::with_capacity(groups.len());
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..groups.len().min(MAX_ORIGINS)).map(|_| scope.spawn(work_on_groups)).collect();
        for worker in workers {
            results.extend(worker.join().unwrap_or_else(|cause| panic::resume_unwind(cause)));
        }
    });
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Returns the indexes of each origin's URLs, in the order of the origins' first URLs.
fn group(origins: &[&Origin]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known = HashMap::new();
    for (index, origin) in origins.iter().enumerate() {
        let group = *known.entry(*origin).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(index);
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Mutex;

    use wayleave_robots_txt::UrlScheme;

    use super::*;

    #[test]
    fn one_origin_is_never_asked_twice_at_the_same_time() {
        let origin = |number| Origin::from_authority(UrlScheme::Http, &format!("h{number}.test"));
        let origins: Vec<Origin> = (0..50).map(|number| origin(number).unwrap()).collect();
        let asked: Vec<&Origin> = (0..500).map(|index| &origins[index * 7 % 50]).collect();
        let busy = Mutex::new(HashSet::new());
        let answers = answer_by_origin(&asked, |index| {
            assert!(busy.lock().unwrap().insert(asked[index]), "{}", asked[index]);
            thread::yield_now();
            assert!(busy.lock().unwrap().len() <= MAX_ORIGINS);
            assert!(busy.lock().unwrap().remove(asked[index]));
            index
        });
        assert!(answers.into_iter().eq(0..500), "in the order of the URLs");
    }
}
