CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE artifacts (
	artifact_id TEXT NOT NULL, 
	task_id TEXT NOT NULL, 
	run_id TEXT, 
	kind TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	verdict TEXT NOT NULL, 
	detail TEXT NOT NULL, 
	checksum TEXT, 
	size BIGINT, 
	checked_at TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	PRIMARY KEY (artifact_id), 
	CONSTRAINT verdict_is_known CHECK (verdict IN ('verified', 'refuted', 'unproven')), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id), 
	FOREIGN KEY(run_id) REFERENCES runs (run_id)
);

CREATE INDEX artifacts_by_task ON artifacts (task_id, artifact_id);

CREATE TABLE bookmarks (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);

CREATE TABLE checkpoints (
	run_id TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	at TEXT NOT NULL, 
	body TEXT NOT NULL, 
	checksum TEXT NOT NULL, 
	PRIMARY KEY (run_id, number), 
	FOREIGN KEY(run_id) REFERENCES runs (run_id)
)
 WITHOUT ROWID

;

CREATE INDEX checkpoints_by_age ON checkpoints (at);

CREATE TABLE events (
	id INTEGER NOT NULL, 
	at TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	task_id TEXT, 
	wait_id TEXT, 
	run_id TEXT, 
	data TEXT NOT NULL, 
	PRIMARY KEY (id)
);

CREATE INDEX events_by_task ON events (task_id, id);

CREATE INDEX events_by_wait ON events (wait_id, id) WHERE wait_id IS NOT NULL;

CREATE TABLE folders (
	task_id TEXT NOT NULL, 
	path TEXT NOT NULL, 
	since TEXT, 
	files TEXT, 
	PRIMARY KEY (task_id, path), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id)
);

CREATE TABLE ledger (
	task_id TEXT NOT NULL, 
	path TEXT NOT NULL, 
	run_id TEXT, 
	change TEXT, 
	call_id TEXT, 
	at TEXT NOT NULL, 
	size BIGINT, 
	sha256 TEXT, 
	verdict TEXT, 
	why TEXT, 
	nearby BOOLEAN NOT NULL, 
	PRIMARY KEY (task_id, path), 
	CONSTRAINT change_is_known CHECK (change IN ('created', 'changed', 'removed')), 
	CONSTRAINT verdict_is_known CHECK (verdict IN ('proved', 'unverified', 'absent', 'empty', 'old')), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id), 
	FOREIGN KEY(run_id) REFERENCES runs (run_id)
);

CREATE TRIGGER ledger_copied AFTER INSERT ON ledger BEGIN INSERT INTO task_texts SELECT NULL, row.task_id, 'made ' || row.path, row.path, (SELECT id FROM task_texts WHERE task_id = row.task_id AND part = 'task'), NULL FROM ledger AS row WHERE true AND row.rowid = new.rowid; END;

CREATE TABLE message_places (id INTEGER PRIMARY KEY, task INTEGER);

CREATE VIRTUAL TABLE message_words USING fts5(content, content='task_messages', content_rowid='id', tokenize='unicode61 remove_diacritics 2', detail='none', columnsize=0);

CREATE TABLE 'message_words_config'(k PRIMARY KEY, v) WITHOUT ROWID;

CREATE VIRTUAL TABLE message_words_counts USING fts5vocab('message_words', 'row');

CREATE TABLE 'message_words_data'(id INTEGER PRIMARY KEY, block BLOB);

CREATE TABLE 'message_words_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;

CREATE TABLE runs (
	run_id TEXT NOT NULL, 
	task_id TEXT NOT NULL, 
	state TEXT NOT NULL, 
	why TEXT, 
	role TEXT, 
	session_key TEXT, 
	owner TEXT, 
	token INTEGER NOT NULL, 
	lease_until TEXT, 
	home TEXT, 
	told_session TEXT, 
	attached TEXT NOT NULL, 
	segmented BOOLEAN NOT NULL, 
	step INTEGER, 
	step_calls INTEGER NOT NULL, 
	step_bonus BOOLEAN NOT NULL, 
	failed_steps TEXT NOT NULL, 
	fingerprint TEXT, 
	folder TEXT, 
	checkpoints INTEGER NOT NULL, 
	calls INTEGER NOT NULL, 
	question TEXT, 
	heard_until INTEGER DEFAULT '0' NOT NULL, 
	rounds INTEGER NOT NULL, 
	rounds_before INTEGER DEFAULT '0' NOT NULL, 
	turn_began_at TEXT, 
	worked_seconds FLOAT DEFAULT '0' NOT NULL, 
	idle_rounds INTEGER NOT NULL, 
	news TEXT NOT NULL, 
	recent TEXT NOT NULL, 
	said TEXT, 
	last_response TEXT, 
	provider_failures INTEGER NOT NULL, 
	tries INTEGER NOT NULL, 
	created_at TEXT NOT NULL, 
	changed_at TEXT NOT NULL, 
	seen_at TEXT NOT NULL, 
	started_at TEXT, 
	version INTEGER NOT NULL, 
	PRIMARY KEY (run_id), 
	CONSTRAINT state_is_known CHECK (state IN ('queued', 'running', 'blocked', 'review', 'completed', 'failed', 'cancelled')), 
	CONSTRAINT news_is_known CHECK (news IN ('none', 'result', 'call')), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id)
);

CREATE INDEX runs_by_age ON runs (created_at, run_id);

CREATE INDEX runs_by_task ON runs (task_id, created_at, run_id);

CREATE INDEX runs_leased ON runs (lease_until, run_id) WHERE lease_until IS NOT NULL;

CREATE INDEX runs_leased_at_home ON runs (home, lease_until, run_id) WHERE lease_until IS NOT NULL;

CREATE INDEX runs_open_by_age ON runs (created_at, run_id, home) WHERE state IN ('queued', 'running', 'blocked', 'review');

CREATE INDEX runs_open_of_session ON runs (session_key, task_id) WHERE state IN ('queued', 'running', 'blocked', 'review');

CREATE UNIQUE INDEX runs_open_of_task ON runs (task_id) WHERE state IN ('queued', 'running', 'blocked', 'review');

CREATE INDEX runs_queued ON runs (created_at, run_id) WHERE state = 'queued';

CREATE INDEX runs_rarer ON runs (state) WHERE state <> 'completed';

CREATE TRIGGER message_words_added AFTER INSERT ON task_messages BEGIN INSERT INTO message_words(rowid, content) VALUES (new.id, new.content); END;

CREATE TRIGGER message_words_changed AFTER UPDATE OF content ON task_messages BEGIN INSERT INTO message_words(message_words, rowid, content) VALUES ('delete', old.id, old.content); INSERT INTO message_words(rowid, content) VALUES (new.id, new.content); END;

CREATE TRIGGER message_words_removed AFTER DELETE ON task_messages BEGIN INSERT INTO message_words(message_words, rowid, content) VALUES ('delete', old.id, old.content); END;

CREATE TABLE task_messages (
	id INTEGER NOT NULL, 
	task_id TEXT NOT NULL, 
	role TEXT NOT NULL, 
	msg_type TEXT NOT NULL, 
	content TEXT NOT NULL, 
	created_at TEXT NOT NULL, by_call BOOLEAN DEFAULT 0 NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT role_is_known CHECK (role IN ('agent', 'system', 'user')), 
	CONSTRAINT msg_type_is_known CHECK (msg_type IN ('text', 'lifecycle', 'progress', 'wait', 'stuck', 'plan')), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id)
);

CREATE INDEX task_messages_by_task ON task_messages (task_id, id);

CREATE TRIGGER task_messages_copied AFTER INSERT ON task_messages BEGIN INSERT INTO message_places SELECT row.id, (SELECT id FROM task_texts WHERE task_id = row.task_id AND part = 'task') FROM task_messages AS row WHERE row.msg_type <> 'stuck' AND row.rowid = new.rowid; END;

CREATE TRIGGER task_messages_removed AFTER DELETE ON task_messages BEGIN DELETE FROM message_places WHERE id = old.id; END;

CREATE TABLE task_plan_revisions (
	id INTEGER NOT NULL, 
	task_id TEXT NOT NULL, 
	old_plan_json TEXT NOT NULL, 
	new_plan_json TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	author TEXT NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT author_is_known CHECK (author IN ('agent', 'system')), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id)
);

CREATE INDEX task_plan_revisions_by_task ON task_plan_revisions (task_id, id);

CREATE TRIGGER task_plan_revisions_copied AFTER INSERT ON task_plan_revisions BEGIN INSERT INTO task_texts SELECT NULL, row.task_id, 'plan ' || row.id, row.old_plan_json, (SELECT id FROM task_texts WHERE task_id = row.task_id AND part = 'task'), NULL FROM task_plan_revisions AS row WHERE true AND row.rowid = new.rowid; END;

CREATE TABLE task_texts (id INTEGER PRIMARY KEY, task_id TEXT NOT NULL, part TEXT NOT NULL, text TEXT NOT NULL, task INTEGER, home TEXT, UNIQUE (task_id, part));

CREATE TRIGGER task_words_added AFTER INSERT ON task_texts BEGIN INSERT INTO task_words(rowid, text) VALUES (new.id, new.text); END;

CREATE TRIGGER task_words_changed AFTER UPDATE OF text ON task_texts BEGIN INSERT INTO task_words(task_words, rowid, text) VALUES ('delete', old.id, old.text); INSERT INTO task_words(rowid, text) VALUES (new.id, new.text); END;

CREATE TRIGGER task_words_removed AFTER DELETE ON task_texts BEGIN INSERT INTO task_words(task_words, rowid, text) VALUES ('delete', old.id, old.text); END;

CREATE INDEX tasks_served ON task_texts (id, task_id, home, task) WHERE task IS NULL;

CREATE INDEX text_places ON task_texts (id, task);

CREATE VIRTUAL TABLE task_words USING fts5(text, content='task_texts', content_rowid='id', tokenize='unicode61 remove_diacritics 2', detail='none', columnsize=0);

CREATE TABLE 'task_words_config'(k PRIMARY KEY, v) WITHOUT ROWID;

CREATE VIRTUAL TABLE task_words_counts USING fts5vocab('task_words', 'row');

CREATE TABLE 'task_words_data'(id INTEGER PRIMARY KEY, block BLOB);

CREATE TABLE 'task_words_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;

CREATE TABLE tasks (
	task_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	status TEXT NOT NULL, 
	"plan" TEXT NOT NULL, 
	done TEXT NOT NULL, 
	metadata TEXT NOT NULL, 
	session_key TEXT, 
	home TEXT, 
	message_count INTEGER NOT NULL, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	last_stuck_alert_at TEXT, 
	alerts INTEGER DEFAULT 0 NOT NULL, 
	alerts_in_a_row INTEGER DEFAULT 0 NOT NULL, 
	stuck_due_at TEXT, 
	held_until TEXT, 
	doubts TEXT DEFAULT '[]' NOT NULL, 
	original_request TEXT, 
	implicit BOOLEAN DEFAULT 0 NOT NULL, 
	host TEXT, 
	registrar_session TEXT, 
	registrar_host TEXT, 
	registrar_home TEXT, 
	PRIMARY KEY (task_id), 
	CONSTRAINT status_is_known CHECK (status IN ('active', 'paused', 'completed', 'failed', 'cancelled'))
);

CREATE INDEX tasks_by_id ON tasks (status, task_id);

CREATE INDEX tasks_by_status ON tasks (status, updated_at, task_id);

CREATE INDEX tasks_by_update ON tasks (updated_at, task_id);

CREATE TRIGGER tasks_copied AFTER INSERT ON tasks BEGIN INSERT INTO task_texts SELECT NULL, row.task_id, 'task', row.name || ' ' || row.plan || ' ' || coalesce(row.original_request, ''), NULL, CASE WHEN row.implicit THEN '' ELSE row.home END FROM tasks AS row WHERE true AND row.rowid = new.rowid; END;

CREATE TRIGGER tasks_home_changed AFTER UPDATE OF home, implicit ON tasks WHEN new.home IS NOT old.home OR new.implicit <> old.implicit BEGIN UPDATE task_texts SET home = CASE WHEN new.implicit THEN '' ELSE new.home END WHERE task_id = new.task_id AND part = 'task'; END;

CREATE INDEX tasks_implicit ON tasks (updated_at, task_id) WHERE implicit;

CREATE INDEX tasks_of_session ON tasks (session_key, status, updated_at, task_id) WHERE session_key IS NOT NULL;

CREATE INDEX tasks_open_of_maker ON tasks (registrar_host, registrar_session, home, status, implicit) WHERE status IN ('active', 'paused') AND NOT implicit;

CREATE INDEX tasks_stuck_due ON tasks (status, stuck_due_at, task_id) WHERE stuck_due_at IS NOT NULL;

CREATE INDEX tasks_stuck_due_at_home ON tasks (home, status, stuck_due_at, task_id) WHERE stuck_due_at IS NOT NULL;

CREATE TRIGGER tasks_text_changed AFTER UPDATE OF name, plan, original_request ON tasks WHEN new.name || ' ' || new.plan || ' ' || coalesce(new.original_request, '') <> old.name || ' ' || old.plan || ' ' || coalesce(old.original_request, '') BEGIN UPDATE task_texts SET text = new.name || ' ' || new.plan || ' ' || coalesce(new.original_request, '') WHERE task_id = new.task_id AND part = 'task'; END;

CREATE TRIGGER tasks_text_removed AFTER DELETE ON tasks BEGIN DELETE FROM task_texts WHERE task_id = old.task_id; END;

CREATE TABLE waits (
	wait_id TEXT NOT NULL, 
	task_id TEXT, 
	session_key TEXT, 
	target TEXT NOT NULL, 
	wake_when TEXT NOT NULL, 
	status TEXT NOT NULL, 
	timeout_seconds DOUBLE NOT NULL, 
	poll_seconds DOUBLE NOT NULL, 
	created_at TEXT NOT NULL, 
	armed_at TEXT NOT NULL, 
	deadline_at TEXT NOT NULL, 
	changed_at TEXT NOT NULL, 
	ended_at TEXT, 
	last_observation TEXT, 
	round INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	start TEXT, 
	home TEXT, 
	host TEXT, 
	within TEXT DEFAULT 'null' NOT NULL, polled BOOLEAN DEFAULT 0 NOT NULL, 
	PRIMARY KEY (wait_id), 
	CONSTRAINT status_is_known CHECK (status IN ('watching', 'resolved', 'timeout', 'cancelled', 'error')), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id)
);

CREATE INDEX waits_by_age ON waits (created_at, wait_id);

CREATE INDEX waits_by_task ON waits (task_id, created_at, wait_id);

CREATE INDEX waits_ended_of_task ON waits (task_id, changed_at, wait_id) WHERE status <> 'watching';

CREATE INDEX waits_open_of_maker ON waits (host, session_key, home, status) WHERE status = 'watching';

CREATE INDEX waits_rarer ON waits (status) WHERE status <> 'resolved';

CREATE INDEX waits_watching ON waits (created_at, wait_id) WHERE status = 'watching';

CREATE INDEX waits_watching_of_task ON waits (task_id, created_at, wait_id) WHERE status = 'watching';

CREATE TABLE wakes (
	wake_id TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	cause TEXT NOT NULL, 
	state TEXT NOT NULL, 
	task_id TEXT, 
	wait_id TEXT, 
	session_key TEXT, 
	home TEXT, 
	text TEXT NOT NULL, 
	urgent BOOLEAN NOT NULL, 
	attempts INTEGER NOT NULL, 
	sends INTEGER NOT NULL, 
	last_error TEXT, 
	created_at TEXT NOT NULL, 
	due_at TEXT, 
	sent_at TEXT, 
	acknowledged_at TEXT, 
	transport TEXT, 
	note TEXT, 
	delivery_id TEXT, 
	version INTEGER NOT NULL, 
	run_id TEXT, 
	host TEXT, 
	PRIMARY KEY (wake_id), 
	CONSTRAINT cause_is_known CHECK (cause IN ('stuck', 'wait', 'run')), 
	CONSTRAINT state_is_known CHECK (state IN ('due', 'sent', 'acknowledged', 'unanswered', 'refused', 'superseded')), 
	UNIQUE ("key"), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id), 
	FOREIGN KEY(wait_id) REFERENCES waits (wait_id), 
	FOREIGN KEY(run_id) REFERENCES runs (run_id)
);

CREATE INDEX wakes_by_age ON wakes (created_at, wake_id);

CREATE INDEX wakes_by_task ON wakes (task_id, created_at, wake_id);

CREATE INDEX wakes_by_wait ON wakes (wait_id) WHERE wait_id IS NOT NULL;

CREATE INDEX wakes_due ON wakes (due_at, wake_id) WHERE due_at IS NOT NULL;

CREATE INDEX wakes_due_at_home ON wakes (home, due_at, wake_id) WHERE due_at IS NOT NULL;

CREATE INDEX wakes_open ON wakes (task_id, created_at, wake_id) WHERE state IN ('due', 'sent');

CREATE INDEX wakes_open_by_age ON wakes (created_at, wake_id, home) WHERE state IN ('due', 'sent');

CREATE INDEX wakes_open_of_wait ON wakes (wait_id, created_at, wake_id) WHERE state IN ('due', 'sent');

CREATE INDEX wakes_rarer ON wakes (state) WHERE state <> 'acknowledged';

CREATE INDEX wakes_sent ON wakes (sent_at) WHERE sent_at IS NOT NULL;
