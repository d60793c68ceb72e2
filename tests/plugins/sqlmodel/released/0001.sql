BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001_tasks');
CREATE TABLE bookmarks (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "bookmarks" VALUES('tell','2');
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
	version INTEGER NOT NULL, 
	PRIMARY KEY (task_id), 
	CONSTRAINT status_is_known CHECK (status IN ('active', 'paused', 'completed', 'failed', 'cancelled'))
);
INSERT INTO "tasks" VALUES('task_a','Deploy the site','active','["Build it","Test it","Ship it"]','[0,1]','{"ticket":"OPS-7"}','agent:main:main',3,'2026-01-05T08:00:00.000000Z','2026-01-05T08:30:00.000000Z',4);
INSERT INTO "tasks" VALUES('task_b','Write the report — ünïcode 👩🏽‍🚀','completed','["Draft","Send"]','[0,1]','{}',NULL,1,'2026-01-06T08:00:00.000000Z','2026-01-06T08:45:00.000000Z',2);
INSERT INTO "tasks" VALUES('task_c','It''s on hold','paused','["Wait"]','[]','{"nested":{"deep":[1,2.5,null,true]}}',NULL,0,'2026-01-07T08:00:00.000000Z','2026-01-07T08:00:00.000000Z',1);
INSERT INTO "tasks" VALUES('task_d','Migrate','active','["One"]','[]','{}','agent:main:other',0,'2026-01-08T08:00:00.000000Z','2026-01-08T08:00:00.000000Z',1);
CREATE INDEX tasks_by_status ON tasks (status, updated_at, task_id);
CREATE INDEX tasks_by_update ON tasks (updated_at, task_id);
CREATE INDEX tasks_by_id ON tasks (status, task_id);
CREATE INDEX task_messages_by_task ON task_messages (task_id, id);
CREATE INDEX task_plan_revisions_by_task ON task_plan_revisions (task_id, id);
CREATE INDEX events_by_task ON events (task_id, id);
COMMIT;
