//! A worker pool whose results are taken in the order of the input.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::thread::ScopedJoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use crate::Error;

/// Gives the next piece.
pub type Next<'a, P> = dyn FnMut() -> Result<Option<P>, Error> + 'a;

/// Lets a thread with each of `states` turn the pieces of `next` into products, and another one give them to
/// `take` in the order of the pieces. At most about twice as many pieces as threads are on the way.
///
/// # Errors
/// Of all errors the one of the earliest piece.
pub(crate) fn run<S: Send, P: Send, R: Send>(
    states: Vec<S>,
    next: &mut Next<'_, P>,
    work: &(dyn Fn(&mut S, P) -> Result<R, Error> + Sync),
    take: &mut (dyn FnMut(R) -> Result<(), Error> + Send),
) -> Result<Vec<S>, Error> {
    let on_the_way = 2 * states.len() + 1;
    let (give_piece, pieces) = bounded(on_the_way);
    let (give, products) = unbounded();
    let (done, places) = bounded(on_the_way);
    for _ in 0..on_the_way {
        done.try_send(()).ok();
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> = states
            .into_iter()
            .map(|state| {
                let (pieces, give) = (pieces.clone(), give.clone());
                scope.spawn(move || keep_working(state, work, &pieces, &give))
            })
            .collect();
        drop(pieces);
        let taker = scope.spawn(move || take_in_order(&products, take, &done));
        for number in 0.. {
            if places.recv().is_err() {
                break;
            }
            let piece = match next() {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(error) => {
                    give.send((number, Err(error))).ok();
                    break;
                }
            };
            if give_piece.send((number, piece)).is_err() {
                break;
            }
        }
        drop((give_piece, give));
        let states = workers.into_iter().map(joined).collect();
        joined(taker).map(|()| states)
    })
}

/// The result of a thread. A panic of the thread continues here.
pub(crate) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

fn keep_working<S, P, R>(
    mut state: S,
    work: &(dyn Fn(&mut S, P) -> Result<R, Error> + Sync),
    pieces: &Receiver<(u64, P)>,
    give: &Sender<(u64, Result<R, Error>)>,
) -> S {
    for (number, piece) in pieces {
        let product = work(&mut state, piece);
        let is_over = product.is_err();
        if give.send((number, product)).is_err() || is_over {
            break;
        }
    }
    state
}

fn take_in_order<R>(
    products: &Receiver<(u64, Result<R, Error>)>,
    take: &mut (dyn FnMut(R) -> Result<(), Error> + Send),
    done: &Sender<()>,
) -> Result<(), Error> {
    let (mut early, mut wanted) = (BTreeMap::new(), 0);
    for (number, product) in products {
        early.insert(number, product);
        while let Some(product) = early.remove(&wanted) {
            take(product?)?;
            wanted += 1;
            // It fails when no more pieces come.
            done.try_send(()).ok();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use super::*;

    /// Doubles numbers. Fails at the numbers of `bad`, and when the
    /// numbers end if `torn`.
    fn doubled(threads: usize, count: u64, bad: &[u64], torn: bool) -> (Vec<u64>, Result<Vec<u64>, String>) {
        let (mut taken, mut number) = (Vec::new(), 0);
        let failed = |number: u64| Error::Missing(number.to_string());
        let mut next = || {
            number += 1;
            if number <= count {
                Ok(Some(number))
            } else if torn {
                Err(failed(number))
            } else {
                Ok(None)
            }
        };
        let done = Mutex::new(BTreeSet::new());
        let work = |state: &mut u64, piece: u64| {
            // With several threads some pieces wait until the next one is done.
            while threads > 1 && piece % 5 == 1 && !done.lock().unwrap().contains(&(piece + 1)) {
                std::thread::yield_now();
            }
            done.lock().unwrap().insert(piece);
            *state += 1;
            if bad.contains(&piece) { Err(failed(piece)) } else { Ok(2 * piece) }
        };
        let mut take = |product| {
            taken.push(product);
            Ok(())
        };
        let states = run(vec![0; threads], &mut next, &work, &mut take);
        (taken, states.map_err(|error| error.to_string()))
    }

    #[test]
    fn results_are_delivered_in_the_order_of_the_input() {
        for threads in [1, 4] {
            let (taken, states) = doubled(threads, 200, &[], false);
            assert_eq!(taken, (1..=200).map(|number| 2 * number).collect::<Vec<_>>());
            assert_eq!(states.unwrap().iter().sum::<u64>(), 200);
        }
        assert_eq!(doubled(2, 0, &[], false), (Vec::new(), Ok(vec![0, 0])));
    }

    #[test]
    fn the_earliest_error_ends_it() {
        for threads in [1, 4] {
            // The slow piece fails first, though others have failed before it.
            let (taken, error) = doubled(threads, 200, &[31, 32, 33, 34], false);
            assert_eq!((taken.len(), error), (30, Err("31".to_owned())));
            let (taken, error) = doubled(threads, 30, &[], true);
            assert_eq!((taken.len(), error), (30, Err("31".to_owned())));
        }
    }
}
