--- 
+++ 
@@ -304,7 +304,7 @@
 	start TEXT, 
 	home TEXT, 
 	host TEXT, 
-	within TEXT DEFAULT 'null' NOT NULL, polled BOOLEAN DEFAULT 0 NOT NULL, 
+	within TEXT DEFAULT 'null' NOT NULL, polled BOOLEAN DEFAULT 0 NOT NULL, parts TEXT DEFAULT '[]' NOT NULL, needs_all BOOLEAN DEFAULT 0 NOT NULL, 
 	PRIMARY KEY (wait_id), 
 	CONSTRAINT status_is_known CHECK (status IN ('watching', 'resolved', 'timeout', 'cancelled', 'error')), 
 	FOREIGN KEY(task_id) REFERENCES tasks (task_id)
