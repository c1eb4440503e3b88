CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, city INTEGER, score REAL);
CREATE TABLE visit (person INTEGER, day INTEGER, cost REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120000)
    INSERT INTO person SELECT i, printf('name %06d', (i * 7919) % 120011), i % 300, i * 0.37 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 350000)
    INSERT INTO visit SELECT (i * 31) % 120000 + 1, i % 365, (i * 17) % 1000 / 10.0 FROM n;
CREATE INDEX person_name ON person (name);
CREATE INDEX visit_person ON visit (person);
SELECT city, count(*), round(sum(cost), 2) FROM person JOIN visit ON visit.person = person.id
    GROUP BY city ORDER BY 3 DESC LIMIT 5;
SELECT count(*) FROM person WHERE name LIKE '%77%' AND id IN (SELECT person FROM visit WHERE day BETWEEN 100 AND 200);
UPDATE person SET score = score + (SELECT coalesce(sum(cost), 0) FROM visit WHERE visit.person = person.id);
SELECT round(sum(score), 2), max(name) FROM person;
SELECT day, avg(cost) OVER (ORDER BY day ROWS 10 PRECEDING) FROM visit WHERE person = 777 LIMIT 3;
