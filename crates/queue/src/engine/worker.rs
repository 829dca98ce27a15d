//! The threads that work in the background.

use std::sync::Weak;

use crate::queue::shared::{Job, Shared};

/// Does the jobs of the queue until the engine stops.
pub(crate) fn work(shared: &Shared) {
    loop {
        match shared.next_job() {
            Job::Stop => return,
            // The queue counts failures; a failure that must stop it has put it out of service.
            Job::Maintain(queue, _maintaining) => queue.upgrade().into_iter().for_each(|queue| {
                queue.maintain().ok();
            }),
            Job::Flush(queues) => queues.iter().filter_map(Weak::upgrade).for_each(|queue| {
                queue.flush_deferred().ok();
            }),
            Job::EndDue(queue) => queue.upgrade().into_iter().for_each(|queue| {
                queue.end_due().ok();
            }),
            Job::CloseIdle(queues) => queues.iter().filter_map(Weak::upgrade).for_each(|queue| {
                queue.close_if_idle().ok();
            }),
        }
    }
}
