BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0013_wakes_of_a_wait');
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
INSERT INTO "artifacts" VALUES('artifact_a','task_a','run_b','file','report.md','verified','It is there.','abababababababababababababababababababababababababababababababab',1099511627776,'2026-01-06T09:05:00.000000Z',1);
CREATE TABLE bookmarks (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "bookmarks" VALUES('tell','2');
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
INSERT INTO "checkpoints" VALUES('run_b',1,'2026-01-06T09:04:00.000000Z','{"began":"call_1"}','11111111');
INSERT INTO "checkpoints" VALUES('run_b',2,'2026-01-06T09:04:00.000000Z','{"ended":"call_1"}','22222222');
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
INSERT INTO "events" VALUES(1,'2026-01-05T08:00:00.000000Z','task_registered','task_a',NULL,NULL,'{"name":"Deploy the site"}');
INSERT INTO "events" VALUES(2,'2026-01-06T08:45:00.000000Z','status_changed','task_b',NULL,NULL,'{"to":"completed"}');
INSERT INTO "events" VALUES(3,'2026-01-06T09:02:00.000000Z','wait_ended','task_a','wait_b',NULL,'{"status":"resolved"}');
INSERT INTO "events" VALUES(4,'2026-01-06T09:02:00.000000Z','wake_sent','task_a','wait_b',NULL,'{"wake_id":"wake_b","key":"wait:wait_b:2"}');
INSERT INTO "events" VALUES(5,'2026-01-06T09:03:00.000000Z','run_changed','task_a',NULL,'run_b','{"from":"queued","to":"running","why":null,"token":3}');
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
	PRIMARY KEY (task_id, path), 
	CONSTRAINT change_is_known CHECK (change IN ('created', 'changed', 'removed')), 
	CONSTRAINT verdict_is_known CHECK (verdict IN ('proved', 'unverified', 'absent', 'empty', 'old')), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id), 
	FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
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
	rounds INTEGER NOT NULL, 
	idle_rounds INTEGER NOT NULL, 
	news TEXT NOT NULL, 
	recent TEXT NOT NULL, 
	said TEXT, 
	provider_failures INTEGER NOT NULL, 
	tries INTEGER NOT NULL, 
	created_at TEXT NOT NULL, 
	changed_at TEXT NOT NULL, 
	seen_at TEXT NOT NULL, 
	started_at TEXT, 
	ended_at TEXT, 
	version INTEGER NOT NULL, question TEXT, rounds_before INTEGER DEFAULT '0' NOT NULL, turn_began_at TEXT, worked_seconds FLOAT DEFAULT '0' NOT NULL, last_response TEXT, heard_until INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (run_id), 
	CONSTRAINT state_is_known CHECK (state IN ('queued', 'running', 'blocked', 'review', 'completed', 'failed', 'cancelled')), 
	CONSTRAINT news_is_known CHECK (news IN ('none', 'result', 'call')), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id)
);
INSERT INTO "runs" VALUES('run_a','task_a','failed','stalled_loop','main','agent:main:main','{"role":"main","session_key":"agent:main:main","boot":"boot_1"}',2,NULL,NULL,NULL,'[]',0,NULL,0,0,'[]',NULL,NULL,0,0,0,0,'none','[]',NULL,0,0,'2026-01-06T09:00:00.000000Z','2026-01-06T09:00:00.000000Z','2026-01-06T09:00:00.000000Z','2026-01-06T09:00:00.000000Z','2026-01-06T09:01:00.000000Z',6,'Which one?',2,'2026-01-06T09:05:00.000000Z',12.5,'Done so far.',0);
INSERT INTO "runs" VALUES('run_b','task_a','running',NULL,'main','agent:main:main','{"role":"main","session_key":"agent:main:main","boot":"boot_1"}',3,'2026-01-06T09:09:00.000000Z','home_1',NULL,'["task_c"]',1,2,3,1,'[1]','f00d','/srv/ünïcode',2,1,1,0,'call','["a:b"]','beef',0,1,'2026-01-06T09:02:00.000000Z','2026-01-06T09:03:00.000000Z','2026-01-06T09:04:00.000000Z','2026-01-06T09:03:00.000000Z',NULL,9,NULL,0,NULL,0.0,NULL,0);
CREATE TABLE task_messages (
	id INTEGER NOT NULL, 
	task_id TEXT NOT NULL, 
	role TEXT NOT NULL, 
	msg_type TEXT NOT NULL, 
	content TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT role_is_known CHECK (role IN ('agent', 'system', 'user')), 
	CONSTRAINT msg_type_is_known CHECK (msg_type IN ('text', 'lifecycle', 'progress', 'wait', 'stuck', 'plan')), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id)
);
INSERT INTO "task_messages" VALUES(1,'task_a','agent','text','Build is green.','2026-01-05T08:10:00.000000Z');
INSERT INTO "task_messages" VALUES(2,'task_a','system','plan','Plan revised: untested','2026-01-05T08:20:00.000000Z');
INSERT INTO "task_messages" VALUES(3,'task_a','agent','progress','Step 2 done','2026-01-05T08:30:00.000000Z');
INSERT INTO "task_messages" VALUES(4,'task_b','system','lifecycle','Completed.','2026-01-06T08:45:00.000000Z');
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
INSERT INTO "task_plan_revisions" VALUES(1,'task_a','["Build it","Ship it"]','["Build it","Test it","Ship it"]','untested','2026-01-05T08:20:00.000000Z','agent');
CREATE TABLE tasks (
	task_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	status TEXT NOT NULL, 
	"plan" TEXT NOT NULL, 
	done TEXT NOT NULL, 
	metadata TEXT NOT NULL, 
	session_key TEXT, 
	message_count INTEGER NOT NULL, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	version INTEGER NOT NULL, last_stuck_alert_at TEXT, alerts INTEGER DEFAULT 0 NOT NULL, alerts_in_a_row INTEGER DEFAULT 0 NOT NULL, stuck_due_at TEXT, held_until TEXT, home TEXT, doubts TEXT DEFAULT '[]' NOT NULL, original_request TEXT, implicit BOOLEAN DEFAULT 0 NOT NULL, host TEXT, registrar_session TEXT, registrar_host TEXT, registrar_home TEXT, 
	PRIMARY KEY (task_id), 
	CONSTRAINT status_is_known CHECK (status IN ('active', 'paused', 'completed', 'failed', 'cancelled'))
);
INSERT INTO "tasks" VALUES('task_a','Deploy the site','active','["Build it","Test it","Ship it"]','[0,1]','{"ticket":"OPS-7","active_wait_ids":["wait_a"],"last_wait_event_at":1767690000,"last_wait_state":"watching"}','agent:main:main',3,'2026-01-05T08:00:00.000000Z','2026-01-05T08:30:00.000000Z',4,'2026-01-06T09:00:00.000000Z',2,1,'2026-01-05T08:30:00.000000Z','2026-01-06T09:07:00.000000Z','home_1','[]','Ship it, please — ünïcode',0,'openclaw:one','agent:main:main','openclaw:one','home_1');
INSERT INTO "tasks" VALUES('task_b','Write the report — ünïcode 👩🏽‍🚀','completed','["Draft","Send"]','[0,1]','{}',NULL,1,'2026-01-06T08:00:00.000000Z','2026-01-06T08:45:00.000000Z',2,NULL,0,0,NULL,NULL,NULL,'[]',NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "tasks" VALUES('task_c','It''s on hold','paused','["Wait"]','[]','{"nested":{"deep":[1,2.5,null,true]}}',NULL,0,'2026-01-07T08:00:00.000000Z','2026-01-07T08:00:00.000000Z',1,NULL,0,0,NULL,NULL,NULL,'[]',NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "tasks" VALUES('task_d','Migrate','active','["One"]','[]','{}','agent:main:other',0,'2026-01-08T08:00:00.000000Z','2026-01-08T08:00:00.000000Z',1,NULL,0,0,'2026-01-08T08:00:00.000000Z',NULL,'home_2','[]',NULL,1,NULL,'agent:main:other',NULL,'home_2');
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
	version INTEGER NOT NULL, start TEXT, home TEXT, host TEXT, within TEXT DEFAULT 'null' NOT NULL, 
	PRIMARY KEY (wait_id), 
	CONSTRAINT status_is_known CHECK (status IN ('watching', 'resolved', 'timeout', 'cancelled', 'error')), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id)
);
INSERT INTO "waits" VALUES('wait_a','task_a','agent:main:main','pty:build','the build finishes','watching',300.0,2.0,'2026-01-06T09:00:00.000000Z','2026-01-06T09:00:00.000000Z','2026-01-06T09:05:00.000000Z','2026-01-06T09:00:00.000000Z',NULL,NULL,1,1,'412','home_1','mcp:claude-code','null');
INSERT INTO "waits" VALUES('wait_b','task_a',NULL,'pty:tests','"passed" appears','resolved',60.5,1.5,'2026-01-06T09:01:00.000000Z','2026-01-06T09:01:00.000000Z','2026-01-06T09:02:00.000000Z','2026-01-06T09:02:00.000000Z','2026-01-06T09:02:00.000000Z','12 passed in 3 s — ünïcode',2,3,'0',NULL,NULL,'null');
INSERT INTO "waits" VALUES('wait_c',NULL,NULL,'screen','a dialog opens','timeout',60.0,2.0,'2026-01-06T09:03:00.000000Z','2026-01-06T09:03:00.000000Z','2026-01-06T09:04:00.000000Z','2026-01-06T09:04:00.000000Z','2026-01-06T09:04:00.000000Z','Nothing was seen yet.',1,2,NULL,NULL,NULL,'null');
CREATE TABLE wakes (
	wake_id TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	cause TEXT NOT NULL, 
	state TEXT NOT NULL, 
	task_id TEXT, 
	wait_id TEXT, 
	session_key TEXT, 
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
	delivery_id TEXT, 
	version INTEGER NOT NULL, 
	note TEXT, 
	run_id TEXT, home TEXT, host TEXT, 
	PRIMARY KEY (wake_id), 
	CONSTRAINT cause_is_known CHECK (cause IN ('stuck', 'wait', 'run')), 
	CONSTRAINT state_is_known CHECK (state IN ('due', 'sent', 'acknowledged', 'unanswered', 'refused', 'superseded')), 
	UNIQUE ("key"), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id), 
	FOREIGN KEY(wait_id) REFERENCES waits (wait_id), 
	FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
INSERT INTO "wakes" VALUES('wake_a','stuck:task_a:1','stuck','unanswered','task_a',NULL,'agent:main:main','[task_stuck_resume] {}',0,1,1,NULL,'2026-01-06T09:00:00.000000Z',NULL,'2026-01-06T09:00:00.000000Z',NULL,'openclaw-cli','delivery_a',3,NULL,NULL,NULL,'openclaw:one');
INSERT INTO "wakes" VALUES('wake_b','wait:wait_b:2','wait','sent','task_a','wait_b','agent:main:main','[system] smart_wait resolved (wait_b): 12 passed in 3 s. Elapsed: 60s.',0,2,1,NULL,'2026-01-06T09:02:00.000000Z','2026-01-06T09:12:00.000000Z','2026-01-06T09:02:00.000000Z',NULL,'openclaw-cli','delivery_b',4,'openclaw-plugin: no gateway listens; ünïcode',NULL,NULL,'openclaw:one');
INSERT INTO "wakes" VALUES('wake_c','wait:wait_c:1','wait','due',NULL,'wait_c',NULL,'[system] smart_wait timeout (wait_c): Condition not met after 60s. Last observation: Nothing was seen yet.',0,1,0,'openclaw cannot be started','2026-01-06T09:04:00.000000Z','2026-01-06T09:04:05.000000Z',NULL,NULL,NULL,NULL,2,NULL,NULL,'home_2',NULL);
INSERT INTO "wakes" VALUES('wake_d','run:run_b:1','run','due','task_a',NULL,'agent:main:main','[system] task_continue (task_a): go on.',0,0,0,NULL,'2026-01-06T09:06:00.000000Z','2026-01-06T09:06:00.000000Z',NULL,NULL,NULL,NULL,1,NULL,'run_b','home_1','openclaw:one');
CREATE INDEX tasks_by_status ON tasks (status, updated_at, task_id);
CREATE INDEX tasks_by_update ON tasks (updated_at, task_id);
CREATE INDEX tasks_by_id ON tasks (status, task_id);
CREATE INDEX task_messages_by_task ON task_messages (task_id, id);
CREATE INDEX task_plan_revisions_by_task ON task_plan_revisions (task_id, id);
CREATE INDEX events_by_task ON events (task_id, id);
CREATE INDEX tasks_stuck_due ON tasks (status, stuck_due_at, task_id) WHERE stuck_due_at IS NOT NULL;
CREATE INDEX waits_by_task ON waits (task_id, created_at, wait_id);
CREATE INDEX waits_by_age ON waits (created_at, wait_id);
CREATE INDEX waits_watching ON waits (created_at, wait_id) WHERE status = 'watching';
CREATE INDEX waits_watching_of_task ON waits (task_id, created_at, wait_id) WHERE status = 'watching';
CREATE INDEX waits_ended_of_task ON waits (task_id, changed_at, wait_id) WHERE status <> 'watching';
CREATE INDEX events_by_wait ON events (wait_id, id) WHERE wait_id IS NOT NULL;
CREATE UNIQUE INDEX runs_open_of_task ON runs (task_id) WHERE state IN ('queued', 'running', 'blocked', 'review');
CREATE INDEX runs_open_of_session ON runs (session_key, task_id) WHERE state IN ('queued', 'running', 'blocked', 'review');
CREATE INDEX runs_queued ON runs (created_at, run_id) WHERE state = 'queued';
CREATE INDEX runs_leased ON runs (lease_until, run_id) WHERE lease_until IS NOT NULL;
CREATE INDEX runs_by_task ON runs (task_id, created_at, run_id);
CREATE INDEX runs_by_age ON runs (created_at, run_id);
CREATE INDEX checkpoints_by_age ON checkpoints (at);
CREATE INDEX artifacts_by_task ON artifacts (task_id, artifact_id);
CREATE INDEX wakes_by_age ON wakes (created_at, wake_id);
CREATE INDEX wakes_by_task ON wakes (task_id, created_at, wake_id);
CREATE INDEX wakes_open ON wakes (task_id, created_at, wake_id) WHERE state IN ('due', 'sent');
CREATE INDEX wakes_open_of_wait ON wakes (wait_id, created_at, wake_id) WHERE state IN ('due', 'sent');
CREATE INDEX wakes_due ON wakes (due_at, wake_id) WHERE due_at IS NOT NULL;
CREATE INDEX wakes_sent ON wakes (sent_at) WHERE sent_at IS NOT NULL;
CREATE INDEX tasks_of_session ON tasks (session_key, status, updated_at, task_id) WHERE session_key IS NOT NULL;
CREATE INDEX wakes_open_by_age ON wakes (created_at, wake_id, home) WHERE state IN ('due', 'sent');
CREATE INDEX runs_open_by_age ON runs (created_at, run_id, home) WHERE state IN ('queued', 'running', 'blocked', 'review');
CREATE INDEX tasks_stuck_due_at_home ON tasks (home, status, stuck_due_at, task_id) WHERE stuck_due_at IS NOT NULL;
CREATE INDEX wakes_due_at_home ON wakes (home, due_at, wake_id) WHERE due_at IS NOT NULL;
CREATE INDEX runs_leased_at_home ON runs (home, lease_until, run_id) WHERE lease_until IS NOT NULL;
CREATE INDEX tasks_implicit ON tasks (updated_at, task_id) WHERE implicit;
CREATE INDEX wakes_by_wait ON wakes (wait_id) WHERE wait_id IS NOT NULL;
COMMIT;
