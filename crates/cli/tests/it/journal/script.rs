//! Journals written down by hand, as short as they can be said. Everything goes through the
//! library: its ids, its rules, its export.

use std::sync::Arc;

use indelible_journal::*;

pub(crate) struct Script {
    journal: Journal,
    start: Timestamp,
    now: Timestamp,
    next_child: u32,
    lines: Vec<u8>,
}

impl Script {
    /// A root of the namespace `shop`, started at `start`.
    pub(crate) fn root(function: &str, operation: &str, start: &str, input: &str) -> Self {
        let digest = ComponentDigest::of(b"shop 1.4.2");
        let operation = OperationKey {
            namespace: "shop".parse().unwrap(),
            operation_id: operation.parse().unwrap(),
        };
        let root = ExecutionId::root_of(RootHash::derive(&digest, None, &operation));
        let key = JournalKey::first(root);
        let attempts = key.attempts().clone();
        let start = start.parse().unwrap();
        let journal = Journal::new(key);
        let mut script = Self { journal, start, now: start, next_child: 0, lines: Vec::new() };
        script.push(Event::ExecutionStarted(Box::new(Started {
            component_digest: digest,
            function_name: function.parse().unwrap(),
            input: json(input),
            parent_id: None,
            idempotency_key: Some(operation),
            attempts,
            limits: Limits {
                memory_bytes_max: 64 << 20,
                stack_bytes_max: 1 << 20,
                table_elements_max: 10_000,
            },
            retry_policy: Some(Arc::new(RetryPolicy::default())),
            trace_parent: None,
        })));
        script
    }

    /// The next events happen this long after the start.
    pub(crate) fn at(&mut self, micros: u64) -> &mut Self {
        self.now = self.start.saturating_add(Micros::new(micros));
        self
    }

    pub(crate) fn push(&mut self, event: Event) -> &mut Self {
        let entry = self.journal.append(self.now, event).unwrap();
        json::write_line(self.journal.key(), entry.as_record(), &mut self.lines);
        self
    }

    /// An event that no journal would accept, with the next sequence number.
    pub(crate) fn push_unchecked(&mut self, event: Event) -> &mut Self {
        let count = self.lines.iter().filter(|byte| **byte == b'\n').count();
        let record = Record { sequence: Sequence::new(count as u64), timestamp: self.now, event };
        json::write_line(self.journal.key(), &record, &mut self.lines);
        self
    }

    pub(crate) fn key(&self) -> &JournalKey {
        self.journal.key()
    }

    pub(crate) fn lines(&self) -> String {
        String::from_utf8(self.lines.clone()).unwrap()
    }

    pub(crate) fn child(&self, number: u32) -> PromiseId {
        self.key().execution_id().child(number)
    }

    pub(crate) fn next_child(&mut self) -> PromiseId {
        self.next_child += 1;
        self.child(self.next_child - 1)
    }

    pub(crate) fn call(&mut self, kind: InvokeKind, name: &str, input: &str) -> &mut Self {
        let class = RetryClass::PERSIST_IDEM;
        let event = Event::InvokeScheduled {
            promise_id: self.next_child(),
            kind,
            function_name: name.parse().unwrap(),
            input: json(input),
            retry_policy: Arc::new(RetryPolicy { class, ..RetryPolicy::default() }),
        };
        self.push(event)
    }

    pub(crate) fn start(&mut self, child: u32, attempt: u32) -> &mut Self {
        let attempt = Attempt::new(attempt).unwrap();
        self.push(Event::InvokeStarted { promise_id: self.child(child), attempt })
    }

    pub(crate) fn complete(&mut self, child: u32, attempt: u32, result: &str) -> &mut Self {
        let (promise_id, result) = (self.child(child), Outcome::Ok(json(result)));
        let attempt = Attempt::new(attempt).unwrap();
        self.push(Event::InvokeCompleted { promise_id, result, attempt })
    }

    pub(crate) fn fail(&mut self, child: u32, attempt: u32, kind: ErrorKind) -> &mut Self {
        let result = Outcome::Err(Box::new(Failure::new(kind, "no answer")));
        let (promise_id, attempt) = (self.child(child), Attempt::new(attempt).unwrap());
        self.push(Event::InvokeCompleted { promise_id, result, attempt })
    }

    pub(crate) fn retry(&mut self, child: u32, attempt: u32, message: &str) -> &mut Self {
        let error = Box::new(Failure::new(ErrorKind::Transient, message));
        self.push(Event::InvokeRetrying {
            promise_id: self.child(child),
            failed_attempt: Attempt::new(attempt).unwrap(),
            cause: RetryCause::Failed,
            error,
            retry_at: self.now.saturating_add(Micros::from_secs(1)),
        })
    }

    pub(crate) fn sleep(&mut self, duration: Micros) -> &mut Self {
        let (promise_id, fire_at) = (self.next_child(), self.now.saturating_add(duration));
        self.push(Event::TimerScheduled { promise_id, duration, fire_at })
    }

    pub(crate) fn wait(&mut self, children: &[u32], kind: AwaitKind) -> &mut Self {
        let waiting_on = WaitSet::of_numbers(self.key().execution_id(), children.to_vec()).unwrap();
        self.push(Event::ExecutionAwaiting { waiting_on, kind })
    }

    pub(crate) fn resume(&mut self) -> &mut Self {
        self.push(Event::ExecutionResumed)
    }

    pub(crate) fn join_set(&mut self) -> JoinSetId {
        let set = JoinSetId::at(self.next_child());
        self.push(Event::JoinSetCreated { join_set_id: set.clone() });
        set
    }

    pub(crate) fn submit(&mut self, set: &JoinSetId, child: u32) -> &mut Self {
        let (join_set_id, promise_id) = (set.clone(), self.child(child));
        self.push(Event::JoinSetSubmitted { join_set_id, promise_id })
    }

    pub(crate) fn take(&mut self, set: &JoinSetId, child: u32, result: &str) -> &mut Self {
        let (join_set_id, promise_id) = (set.clone(), self.child(child));
        let result = Outcome::Ok(json(result));
        self.push(Event::JoinSetAwaited { join_set_id, promise_id, result })
    }

    pub(crate) fn deliver(&mut self, name: &str, payload: &str) -> &mut Self {
        let (signal_name, delivery_id) = (name.parse().unwrap(), DeliveryId::FIRST);
        self.push(Event::SignalDelivered { signal_name, payload: json(payload), delivery_id })
    }

    pub(crate) fn receive(&mut self, name: &str, payload: &str) -> &mut Self {
        let (promise_id, delivery_id) = (self.next_child(), DeliveryId::FIRST);
        let (signal_name, payload) = (name.parse().unwrap(), json(payload));
        self.push(Event::SignalReceived { promise_id, signal_name, payload, delivery_id })
    }

    pub(crate) fn finish(&mut self, result: &str) -> &mut Self {
        self.push(Event::ExecutionCompleted { result: json(result) })
    }
}

pub(crate) fn json(text: &str) -> Payload {
    Payload::json(text.to_owned())
}
