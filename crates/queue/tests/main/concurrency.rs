//! Queues with message groups of which several rows may be in flight.

use queue::{Order, Sync};

use crate::fifo::{FIFO, lease_one, put, take};
use crate::support::{TestQueue, WHOLE, ordered, pass_ms, session};

#[test]
fn as_many_rows_of_a_key_as_its_concurrency_are_given_at_once_in_their_order() {
    for sync in [Sync::Always, Sync::Interval, Sync::Never] {
        let order = Order { concurrency: 2, ..FIFO };
        let opened = TestQueue::new(&ordered(sync, WHOLE, order));
        put(&opened.queue, &["a1", "b1", "c1", "d1", "a2"]);
        let (mut one, mut two, mut three) = (session(1), session(2), session(3));
        assert_eq!(opened.queue.status().behind, 2);
        assert_eq!(take(&mut one, &opened.queue, 1), ["a1"]);
        assert_eq!(take(&mut two, &opened.queue, 9), ["b1", "a2"], "the second of its key, and no third one");
        assert_eq!(take(&mut three, &opened.queue, 9), [""; 0]);
        one.end().unwrap();
        assert_eq!(take(&mut three, &opened.queue, 9), ["c1"]);
        one.close().unwrap();
        two.abort().unwrap();
        assert_eq!(take(&mut one, &opened.queue, 9), ["b1", "a2"], "one has come back, before the others");
        three.end().unwrap();
        let token = lease_one(&opened.queue);
        pass_ms(11_000);
        assert_eq!(take(&mut two, &opened.queue, 9), ["d1"]);
        assert_eq!(opened.queue.ack(&[token]).unwrap(), 0, "somebody else has it");
        two.end().unwrap();
        one.end().unwrap();
        assert_eq!(opened.queue.rows(), 0);
        put(&opened.queue, &["a1", "b1", "c1", "a2", "b2"]);
        let opened = opened.reopened();
        assert_eq!(opened.queue.definition().order, order);
        assert_eq!(take(&mut session(1), &opened.queue, 9), ["a1", "b1", "a2", "b2"]);
    }
}
