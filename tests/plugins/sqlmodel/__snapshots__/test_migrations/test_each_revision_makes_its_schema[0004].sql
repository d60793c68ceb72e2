--- 
+++ 
@@ -177,7 +177,7 @@
 	role TEXT NOT NULL, 
 	msg_type TEXT NOT NULL, 
 	content TEXT NOT NULL, 
-	created_at TEXT NOT NULL, 
+	created_at TEXT NOT NULL, by_call BOOLEAN DEFAULT 0 NOT NULL, 
 	PRIMARY KEY (id), 
 	CONSTRAINT role_is_known CHECK (role IN ('agent', 'system', 'user')), 
 	CONSTRAINT msg_type_is_known CHECK (msg_type IN ('text', 'lifecycle', 'progress', 'wait', 'stuck', 'plan')), 
